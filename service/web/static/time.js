// Ages and countdowns tick from <time datetime> and the server's clock; the words are those of service/web/shared/words.py.
"use strict";

const txnscope = (window.txnscope = window.txnscope || {});

txnscope.duration = (ms) => {
  ms = Math.max(ms, 0);
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = ms < 60000 ? Math.floor((ms + 500) / 1000) : Math.floor(ms / 1000);
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const place = units.findIndex(([, length]) => seconds >= length);
  const [unit, length] = units[place];
  const rest = seconds % length;
  const next = units[place + 1];
  if (!next || rest < next[1]) return `${Math.floor(seconds / length)} ${unit}`;
  const number = Math.floor(rest / next[1]);
  return `${Math.floor(seconds / length)} ${unit} ${next[0] === "h" ? number : String(number).padStart(2, "0")} ${next[0]}`;
};

// the server's now, whatever the clock of this machine says
txnscope.skewMs = 0;
txnscope.now = () => Date.now() + txnscope.skewMs;
txnscope.setClock = (iso) => {
  const told = Date.parse(iso);
  if (!Number.isNaN(told)) txnscope.skewMs = told - Date.now();
};

// the time of day, UTC
txnscope.clock = (ms) => new Date(ms).toISOString().slice(11, 19);

txnscope.countdown = (leftMs, lateMs) => {
  if (leftMs > 0) return `in ${txnscope.duration(leftMs)}`;
  return lateMs > 0 ? `(due ${txnscope.duration(lateMs)} ago)` : "any moment now";
};

txnscope.tick = () => {
  const now = txnscope.now();
  const say = (time, text) => {
    if (time.textContent !== text) time.textContent = text;
  };
  for (const time of document.querySelectorAll("time[data-since]")) {
    say(time, txnscope.duration(now - Date.parse(time.dateTime)));
  }
  for (const time of document.querySelectorAll("time[data-until]")) {
    const left = Date.parse(time.dateTime) - now;
    say(time, left > 0 ? txnscope.duration(left) : "a moment");
  }
  for (const time of document.querySelectorAll("time[data-in]")) {
    const late = time.dataset.latest ? now - Date.parse(time.dataset.latest) : 0;
    say(time, txnscope.countdown(Date.parse(time.dateTime) - now, late));
  }
};

txnscope.setClock(document.body.dataset.now);
setInterval(txnscope.tick, 1000);
