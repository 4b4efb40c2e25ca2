// Keeps the page as new as the data: at once on events, at most once a second, else every five seconds; can be paused.
"use strict";

(() => {
  const EVERY_MS = 5000;
  const AT_MOST_MS = 1000;
  const ANSWERS_WITHIN_MS = 10000;
  const OLD_MS = 30000; // as service/web/shared/frame.py
  const LATE_MS = 5000;
  const PARTS = ["live", "nav", "notice", "content", "foot"];
  const EVENTS = ["opened", "confirmed", "reopened", "updated", "resolved", "reset"];
  const WORDS = { live: "Live, data", late: "Late, data", old: "Late, data", unknown: "Stopped, data" };

  // a page that does not refresh itself, such as the answer to a form: only its age is updated
  const isStill = "still" in document.body.dataset;
  const pause = document.getElementById("pause");
  const title = document.title;
  let pausedAt = null;
  let lostAt = null;
  let told = null;
  let changes = 0;
  let refreshedAt = Date.now();
  let timer = null;
  let busy = false;
  let again = false;
  let events = null;

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    refreshedAt = Date.now();
    try {
      const answer = await fetch(location.href, {
        headers: { "X-Refresh": "1" }, // what was asked of Kafka need not be asked again
        cache: "no-store",
        signal: AbortSignal.timeout(ANSWERS_WITHIN_MS),
      });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (fresh.getElementById("content")) await show(fresh);
      else lose(fresh.getElementById("problem"));
    } catch {
      lose(null);
    } finally {
      busy = false;
      txnscope.tick();
      age();
    }
    if (again) soon();
    again = false;
  }

  async function show(fresh) {
    lostAt = told = null;
    txnscope.setClock(fresh.body.dataset.now);
    keepOpen(fresh);
    for (const id of PARTS) {
      const here = document.getElementById(id);
      const there = fresh.getElementById(id);
      if (here && there) {
        await htmx.swap({ sourceElement: here, target: here, text: there.outerHTML, swap: "outerMorph" });
      }
    }
    document.title = fresh.title;
    label();
    listen();
    document.dispatchEvent(new Event("txnscope:refreshed"));
  }

  // the server does not know which details the reader has opened or closed
  function keepOpen(fresh) {
    for (const details of document.querySelectorAll("details[id]")) {
      const there = fresh.getElementById(details.id);
      if (there) there.open = details.open;
    }
  }

  // no answer, or an answer without this page: reports that, and keeps the shown data as the last known data
  function lose(problem) {
    if (lostAt === null) lostAt = txnscope.now();
    const why = problem ? problem.textContent : "";
    if (told !== why) tell(why); // once: a screen reader says it each time it is written
    told = why;
    document.title = `Not connected · ${title}`;
    lastKnown();
    label();
    if (events) events.close();
    events = null;
  }

  function tell(why) {
    const notice = document.getElementById("notice");
    notice.replaceChildren(document.getElementById("lost").content.cloneNode(true));
    notice.querySelector("time[data-since]").dateTime = new Date(lostAt).toISOString();
    notice.querySelector(why ? "[data-lost]" : "[data-refused]").remove();
    if (why) notice.querySelector("[data-problem]").textContent = why;
    else notice.querySelector("[data-problem]").remove();
    const shown = notice.querySelector("time[data-shown]");
    if (shown) {
      shown.dateTime = document.getElementById("age").dataset.asOf;
      shown.textContent = txnscope.clock(Date.parse(shown.dateTime));
    }
  }

  // old data never looks green
  function lastKnown() {
    document.getElementById("content").classList.add("is-old");
    const verdict = document.getElementById("verdict");
    const first = verdict && verdict.querySelector("h1");
    if (!first || /^(Last known|Unknown|Reading)/.test(first.textContent)) return;
    verdict.classList.replace("verdict--ok", "verdict--unknown");
    first.textContent = `Last known: ${first.textContent}`;
  }

  function soon() {
    if (isStill || pausedAt !== null || document.hidden || timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      refresh();
    }, Math.max(0, refreshedAt + AT_MOST_MS - Date.now()));
  }

  function label() {
    const text = lostAt !== null ? "Retry now" : pausedAt !== null ? "Go on" : "Pause";
    const shown = pause.querySelector(".lbl");
    if (shown.textContent !== text) shown.textContent = text;
    pause.classList.toggle("is-needed", text !== "Pause"); // its words are shown on a phone, too
    pause.setAttribute("aria-pressed", String(pausedAt !== null));
  }

  pause.addEventListener("click", () => {
    if (lostAt !== null) {
      refresh();
    } else if (pausedAt === null) {
      pausedAt = txnscope.now();
      changes = 0;
      clearTimeout(timer);
      timer = null;
    } else {
      pausedAt = null;
      refresh();
    }
    label();
    age();
  });

  // the age keeps counting between refreshes, and while paused
  function age() {
    const shown = document.getElementById("age");
    if (!shown || !shown.dataset.asOf) return;
    const ms = txnscope.now() - Date.parse(shown.dataset.asOf);
    let word = WORDS[ms < LATE_MS && shown.dataset.word === "late" ? "live" : shown.dataset.word];
    let dot = shown.dataset.word === "unknown" ? "dot dot--gone" : ms < LATE_MS ? "dot" : "dot dot--late";
    if (lostAt !== null) {
      word = "Not connected, data";
      dot = "dot dot--gone";
    } else if (pausedAt !== null) {
      word = `Paused at ${txnscope.clock(pausedAt)}, ${changes} ${changes === 1 ? "change" : "changes"} since, data`;
      dot = "dot dot--late";
      if (ms >= OLD_MS) lastKnown();
    } else if (word === WORDS.live && ms >= LATE_MS) {
      word = WORDS.late;
    }
    if (!word) return; // a first read has no age
    const say = (selector, text) => {
      const element = shown.querySelector(selector);
      if (element && element.textContent !== text) element.textContent = text;
    };
    say(".live__word", word);
    say(".live__old", `${txnscope.duration(ms)} old`);
    shown.querySelector(".dot").className = dot;
  }

  // browsers hold few connections to a host at a time: a hidden tab gives its connection up for other tabs
  function listen() {
    if (isStill || document.hidden || (events && events.readyState !== EventSource.CLOSED)) return;
    events = new EventSource(`/events?cluster=${encodeURIComponent(document.body.dataset.cluster)}`);
    for (const name of EVENTS) {
      events.addEventListener(name, () => {
        changes += 1;
        soon();
      });
    }
  }

  function stop() {
    if (events) events.close();
    events = null;
    clearTimeout(timer);
    timer = null;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      if (pausedAt === null) stop(); // a paused page counts on
      return;
    }
    listen();
    soon();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    listen();
    soon();
  });

  pause.hidden = isStill;
  listen();
  txnscope.tick();
  setInterval(() => {
    age();
    if (Date.now() - refreshedAt >= EVERY_MS) soon();
  }, 500);
})();
