// Draws `drawing` (answers.py) where the board's grid has each panel: lines with uPlot, as Grafana does.
(() => {
  const COLOURS = { green: "#37872d", orange: "#e55400", red: "#c4162a", blue: "#1f60c4", text: "#24292e" };
  const LINES = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300"];
  const FONT = "11px Liberation Sans, Arial, sans-serif";

  const element = (parent, name, className = "", text = "") => {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return parent.appendChild(made);
  };

  const digits = (value) => String(Number(value.toPrecision(3)));
  const scaled = (value, units) => {
    const [size, name] = units.find(([least]) => Math.abs(value) >= least) || units[units.length - 1];
    return digits(value / size) + name;
  };
  const shown = (value, unit) => {
    if (unit === "string" || value === "" || Number.isNaN(Number(value))) return String(value);
    const number = Number(value);
    if (unit === "none") return String(Number(number.toFixed(2)));
    if (unit === "percentunit") return `${digits(100 * number)} %`;
    if (unit === "s") return number === 0 ? "0 s" : scaled(number, [[86400, " d"], [3600, " h"], [60, " min"], [1, " s"], [0.001, " ms"]]);
    if (unit === "bytes" || unit === "Bps") {
      const ending = unit === "Bps" ? "/s" : "";
      return scaled(number, [[2 ** 30, ` GiB${ending}`], [2 ** 20, ` MiB${ending}`], [1024, ` KiB${ending}`], [1, ` B${ending}`]]);
    }
    const ending = { ops: " ops/s", reqps: " req/s" }[unit] || "";
    return scaled(number, [[1e6, " M"], [1e3, " K"], [1, ""]]) + ending;
  };

  const colourOf = (value, steps) => {
    const passed = steps.filter((step) => step.value === null || step.value === undefined || Number(value) >= step.value);
    return passed.length ? passed[passed.length - 1].color : "text";
  };

  const drawStat = (panel, body) => {
    const stats = element(body, "div", "stats");
    for (const one of panel.shown) {
      const colour = colourOf(one.last, panel.steps);
      const stat = element(stats, "div", colour === "text" ? "stat" : "stat coloured");
      if (colour !== "text") stat.style.background = COLOURS[colour];
      if (panel.shown.length > 1) element(stat, "div", "", one.name);
      element(stat, "b", "", shown(one.last, panel.unit));
    }
  };

  const drawTable = (panel, body) => {
    const table = element(body, "table");
    const head = element(table, "tr");
    for (const column of panel.columns) element(head, "th", "", column.title);
    for (const row of panel.shown) {
      const line = element(table, "tr");
      row.forEach((value, at) => {
        const cell = element(line, "td", "", shown(value, panel.columns[at].unit));
        const colour = panel.columns[at].steps.length ? colourOf(value, panel.columns[at].steps) : "text";
        if (colour === "text") return;
        cell.style.background = COLOURS[colour];
        cell.style.color = "#fff";
      });
    }
  };

  // Steps of axes that read well: 30 s and 2 min instead of 50 s and 1.67 min.
  const SECONDS = [1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200];
  const BYTES = Array.from({ length: 40 }, (_, at) => 2 ** at);
  const STEPS = { s: SECONDS, bytes: BYTES, Bps: BYTES };

  const clock = (plot, seconds) => seconds.map((at) => new Date(1000 * at).toISOString().slice(11, 16));
  const axes = (panel, names) => [
    { font: FONT, stroke: "#24292e", grid: { stroke: "#eceded", width: 1 }, ticks: { show: false }, size: 20, space: 70, values: clock },
    {
      font: FONT, stroke: "#24292e", grid: { stroke: "#eceded", width: 1 }, ticks: { show: false }, size: 66, space: 26,
      ...(STEPS[panel.unit] && !names ? { incrs: STEPS[panel.unit] } : {}),
      values: names || ((plot, values) => values.map((value) => (value === null ? "" : shown(value, panel.unit)))),
    },
  ];
  const frame = (body, options, data) => {
    const legend = body.querySelector(".legend");
    const height = body.clientHeight - (legend ? legend.offsetHeight : 0);
    const host = document.createElement("div");
    body.prepend(host);
    new uPlot({ width: body.clientWidth, height, legend: { show: false }, cursor: { show: false }, padding: [8, 20, 0, 0], ...options }, data, host);
  };
  const across = (plot, y, colour) => {
    const at = Math.round(plot.valToPos(y, "y", true)) + 0.5;
    if (at < plot.bbox.top) return;
    stroke(plot, colour, [[plot.bbox.left, at], [plot.bbox.left + plot.bbox.width, at]]);
  };
  const down = (plot, x, colour) => {
    const at = Math.round(plot.valToPos(x, "x", true)) + 0.5;
    stroke(plot, colour, [[at, plot.bbox.top], [at, plot.bbox.top + plot.bbox.height]]);
  };
  const stroke = (plot, colour, [from, to]) => {
    plot.ctx.save();
    plot.ctx.setLineDash([4, 4]);
    plot.ctx.strokeStyle = colour;
    plot.ctx.beginPath();
    plot.ctx.moveTo(...from);
    plot.ctx.lineTo(...to);
    plot.ctx.stroke();
    plot.ctx.restore();
  };

  const timesOf = (panel) => [...new Set(panel.shown.flatMap((one) => one.points.map(([at]) => at)))].sort((a, b) => a - b);
  const valuesAt = (one, times) => {
    const at = new Map(one.points.map(([time, value]) => [time, Number(value)]));
    return times.map((time) => (Number.isFinite(at.get(time)) ? at.get(time) : null));
  };

  const drawLines = (panel, body) => {
    const legend = element(body, "div", "legend");
    panel.shown.forEach((one, at) => {
      const name = element(legend, "span");
      element(name, "i").style.background = LINES[at % LINES.length];
      name.append(one.name);
    });
    const times = timesOf(panel);
    const values = panel.shown.map((one) => valuesAt(one, times));
    if (panel.stacked) for (let at = 1; at < values.length; at++) values[at] = values[at].map((value, i) => (value === null ? values[at - 1][i] : value + (values[at - 1][i] || 0)));
    const highest = Math.max(...values.flat().map(Number));
    const thresholds = panel.steps.filter((step) => step.value > 0);
    const series = panel.shown.map((one, at) => ({
      stroke: LINES[at % LINES.length], width: 1.5, points: { show: times.length < 2 },
      fill: panel.stacked ? `${LINES[at % LINES.length]}59` : `${LINES[at % LINES.length]}14`,
    }));
    const marks = (plot) => {
      for (const step of thresholds) if (step.value <= plot.scales.y.max) across(plot, step.value, COLOURS[step.color]);
      for (const at of drawing.alerts) down(plot, at, "#c4162a66");
    };
    // The last of a stack is drawn first, and each is filled down to the one below it.
    const order = panel.stacked ? values.map((_, at) => values.length - 1 - at) : values.map((_, at) => at);
    frame(body, {
      axes: axes(panel),
      scales: { x: { range: drawing.span }, y: { range: [0, highest > 0 ? 1.1 * highest : 1] } },
      series: [{}, ...order.map((at) => series[at])],
      bands: panel.stacked ? order.slice(1).map((_, at) => ({ series: [at + 1, at + 2] })) : [],
      hooks: { draw: [marks] },
    }, [times, ...order.map((at) => values[at])]);
  };

  const drawHeatmap = (panel, body) => {
    const times = timesOf(panel);
    const rows = panel.shown.map((one) => valuesAt(one, times));
    const most = Math.max(...rows.flat().map(Number));
    const step = times.length > 1 ? Math.min(...times.slice(1).map((time, at) => time - times[at])) : 15;
    const cells = (plot) => rows.forEach((row, at) => row.forEach((count, i) => {
      if (!count) return;
      const left = Math.max(plot.bbox.left, plot.valToPos(times[i] - step, "x", true));
      const top = plot.valToPos(at + 1, "y", true);
      plot.ctx.fillStyle = `rgba(229, 84, 0, ${(0.1 + 0.9 * Math.sqrt(count / most)).toFixed(2)})`;
      plot.ctx.fillRect(left, top + 1, plot.valToPos(times[i], "x", true) - left - 1, plot.valToPos(at, "y", true) - top - 1);
    }));
    const names = (plot, values) => values.map((at) => (panel.shown[at - 1] ? `≤ ${shown(panel.shown[at - 1].name, panel.unit)}` : ""));
    const [x, y] = axes(panel, names);
    frame(body, {
      axes: [x, { ...y, space: 16, incrs: [1, 2, 5, 10] }],
      scales: { x: { range: drawing.span }, y: { range: [0, rows.length] } },
      series: [{}, ...rows.map(() => ({ show: true, stroke: "transparent", points: { show: false } }))],
      hooks: { draw: [cells] },
    }, [times, ...rows.map((row) => row.map(() => null))]);
  };

  const DRAWN = { stat: drawStat, table: drawTable, timeseries: drawLines, heatmap: drawHeatmap };

  document.querySelector("h1").textContent = drawing.title;
  for (const panel of drawing.panels) {
    const section = element(document.querySelector("#grid"), "section", panel.type === "row" ? "row" : "");
    section.style.gridColumn = `${panel.at.x + 1} / span ${panel.at.w}`;
    section.style.gridRow = `${panel.at.y + 1} / span ${panel.at.h}`;
    element(section, "h2", "", panel.title);
    if (panel.type === "row") continue;
    const body = element(section, "div", "body");
    if (!panel.shown.length) element(body, "div", "nothing", panel.type === "stat" ? "none" : "No data");
    else DRAWN[panel.type](panel, body);
  }
})();
