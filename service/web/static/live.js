// Keeps the page as new as the data: at once on events, at most once a second, else every five seconds; can be paused.
"use strict";

(() => {
  const EVERY_MS = 5000;
  const AT_MOST_MS = 1000;
  const LATE_MS = 5000;
  const pause = document.getElementById("pause");
  let paused = false;
  let pausedAt = null;
  let changes = 0;
  let refreshedAt = Date.now();
  let timer = null;
  let lostAt = null;
  let busy = false;

  const parts = ["#live", "#nav", "#notice", "#content", "#foot"];

  async function refresh() {
    timer = null;
    if (busy) return;
    busy = true;
    refreshedAt = Date.now();
    try {
      const response = await fetch(location.href, { headers: { "X-Refresh": "1" }, cache: "no-store" });
      const text = await response.text();
      const fresh = new DOMParser().parseFromString(text, "text/html");
      if (!fresh.getElementById("content")) throw new Error(`${response.status}`);
      txnscope.setClock(fresh.body.dataset.now);
      for (const selector of parts) {
        const here = document.querySelector(selector);
        const there = fresh.querySelector(selector);
        if (here && there) await htmx.swap({ target: here, text: there.outerHTML, swap: "outerMorph" });
      }
      document.title = fresh.title;
      found();
    } catch (error) {
      lost();
    } finally {
      busy = false;
      txnscope.tick();
      document.dispatchEvent(new Event("txnscope:refreshed"));
    }
  }

  // the service does not answer: say so, and keep what is there as the last known
  function lost() {
    lostAt = lostAt || Date.now();
    const notice = document.getElementById("notice");
    notice.innerHTML =
      '<div class="notice notice--critical" role="alert"><div><p class="strong">This page has lost its connection to txnscope <time data-since></time> ago.</p>' +
      "<p>It keeps trying. Kafka and your transactions are not affected by this; alerts come from Prometheus and still work if it can reach txnscope.</p></div></div>";
    notice.querySelector("time").dateTime = new Date(lostAt + txnscope.skewMs).toISOString();
    document.getElementById("content").classList.add("is-old");
  }

  function found() {
    if (lostAt === null) return;
    lostAt = null;
  }

  function soon(delay) {
    if (paused || document.hidden || timer !== null) return;
    timer = setTimeout(refresh, Math.max(delay, refreshedAt + AT_MOST_MS - Date.now()));
  }

  function setPaused(now) {
    paused = now;
    pausedAt = now ? new Date(txnscope.now()) : null;
    changes = 0;
    pause.setAttribute("aria-pressed", String(now));
    pause.querySelector(".lbl").textContent = now ? "Go on" : "Pause";
    if (now && timer !== null) {
      clearTimeout(timer);
      timer = null;
    }
    if (!now) refresh();
    age();
  }

  // the age keeps counting between refreshes, and while paused
  function age() {
    const shown = document.getElementById("age");
    if (!shown || !shown.dataset.asOf) return;
    const ms = txnscope.now() - Date.parse(shown.dataset.asOf);
    const text = shown.querySelector(".live__text");
    const dot = shown.querySelector(".dot");
    if (lostAt !== null) {
      dot.className = "dot dot--gone";
      text.textContent = `Not connected, data ${txnscope.duration(ms)} old`;
    } else if (paused) {
      dot.className = "dot dot--late";
      const at = pausedAt.toISOString().slice(11, 19);
      text.textContent = `Paused at ${at}, ${changes} ${changes === 1 ? "change" : "changes"} since, data ${txnscope.duration(ms)} old`;
    } else if (ms < 120000) {
      dot.className = ms < LATE_MS ? "dot" : "dot dot--late";
      text.textContent = `${ms < LATE_MS ? "Live" : "Late"}, data ${txnscope.duration(ms)} old`;
    }
  }

  const events = new EventSource(`/events?cluster=${encodeURIComponent(document.body.dataset.cluster)}`);
  for (const name of ["opened", "confirmed", "reopened", "updated", "resolved", "reset"]) {
    events.addEventListener(name, () => {
      changes += 1;
      soon(0);
    });
  }

  pause.hidden = false;
  pause.addEventListener("click", () => setPaused(!paused));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) soon(0);
  });
  setInterval(() => {
    age();
    if (Date.now() - refreshedAt >= EVERY_MS) soon(0);
  }, 500);
})();
