// Draws the ended transactions of one id as bars, by cause, with uPlot. The bars replace the drawing that needs no script.
"use strict";

(() => {
  const CAUSES = [["commit", "commit"], ["client", "abort"], ["timeout", "timeout"], ["fenced", "fenced"], ["admin", "admin"], ["unattributed", "none"]];
  const NAMES = { commit: "commits", client: "client abort" };
  const HEIGHT = 180;
  let plot = null;
  let told = null;

  function color(cause) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--c-${cause}`).trim();
  }

  function ink(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function utc(seconds) {
    return new Date(seconds * 1000).toISOString();
  }

  // counts by bar, stacked: the first cause is at the bottom, each other cause on top of the one before
  function stacked(figure) {
    const from = Math.floor(Date.parse(figure.dataset.from) / 60000) * 60000;
    const to = Date.parse(figure.dataset.to);
    const width = Number(figure.dataset.widthMs);
    const bars = Math.max(Math.ceil((to - from) / width), 1);
    const xs = Array.from({ length: bars }, (_, number) => (from + number * width) / 1000);
    const counts = CAUSES.map(() => new Array(bars).fill(0));
    for (const [begin, ends] of JSON.parse(figure.dataset.bars)) {
      const bar = Math.floor((begin - from) / width);
      if (bar < 0 || bar >= bars) continue;
      CAUSES.forEach(([word], place) => (counts[place][bar] += ends[word] || 0));
    }
    const sums = counts.map((own) => own.slice());
    for (let place = 1; place < sums.length; place += 1) {
      for (let bar = 0; bar < bars; bar += 1) sums[place][bar] += sums[place - 1][bar];
    }
    return { data: [xs, ...sums.slice().reverse()], counts: counts.slice().reverse() };
  }

  // the highest sums are drawn first, the lower ones over them
  function options(host) {
    const bars = uPlot.paths.bars({ size: [0.9, Infinity], align: 1 });
    const [from, to] = [host.parentElement.dataset.from, host.parentElement.dataset.to].map((iso) => Date.parse(iso) / 1000);
    const isLong = to - from > 2 * 86400;
    const clock = (seconds) => (isLong ? utc(seconds).slice(5, 16).replace("T", " ") : utc(seconds).slice(11, 16));
    const line = { stroke: ink("--muted"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 } };
    return {
      width: host.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { drag: { x: false, y: false } },
      scales: { x: { range: () => [from, to] }, y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
      axes: [{ ...line, space: isLong ? 90 : 50, values: (_, at) => at.map(clock) }, { ...line, size: 56 }],
      series: [
        { value: (_, at) => (at === null ? "" : `${utc(at).slice(5, 16).replace("T", " ")} UTC`) },
        ...CAUSES.slice().reverse().map(([word, cause], place) => ({
          label: NAMES[word] || word,
          stroke: color(cause),
          fill: color(cause),
          paths: bars,
          points: { show: false },
          value: (_, value, __, index) => (index === null || value === null ? "" : told.counts[place][index].toLocaleString("en")),
        })),
      ],
    };
  }

  function draw() {
    const figure = document.getElementById("rates");
    if (!figure || !window.uPlot) return;
    if (plot) figure.classList.add("is-plotted"); // a refresh has brought the server's drawing back
    told = stacked(figure);
    const host = figure.querySelector(".rates__plot");
    figure.classList.add("is-plotted");
    if (plot && host.contains(plot.root)) plot.setData(told.data);
    else plot = new uPlot(options(host), told.data, host);
  }

  // the newest transactions are at the right: lanes that are wider than the screen are scrolled there
  function toTheNewest() {
    const lanes = document.getElementById("lanes");
    if (lanes) lanes.scrollLeft = lanes.scrollWidth;
  }

  draw();
  toTheNewest();
  document.addEventListener("txnscope:refreshed", draw);
  window.addEventListener("resize", () => {
    const host = document.querySelector(".rates__plot");
    if (plot && host) plot.setSize({ width: host.clientWidth, height: HEIGHT });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (plot) plot.destroy();
    plot = null;
    draw();
  });
})();
