// Draws the figures of time series with uPlot, over the finished pictures that stand in their place.
// All that was measured comes in as JSON and reaches the page as text and numbers only.
(() => {
  "use strict";
  const GUTTER = 64, RIGHT = 16, HEIGHT = 96, TALL = 150, AXIS = 26; // pixels; the gutter holds a scale
  const NEAREST_ZOOM = 1 / 500; // of the window
  const MOST_LETTERS = 24; // of a recording's name beside those of others
  const COLOURS = 6; // of lines; those of further recordings are broken
  const FIRST = ["Throughput: committed", "Latency: 99th percentile"]; // of all recordings' quantities
  const FEW = 12; // events of one kind whose time is shaded in all panels unless the reader asks for it
  const { recordings, figures } = read(JSON.parse(document.getElementById("series-data").textContent));

  function read(data) {
    for (const recording of data.recordings) {
      // A mark comes as the place of its kind, from, to (or null), how many it stands for, and its text.
      recording.marks = recording.marks.map(([place, start, end, count, text]) =>
        ({ kind: recording.kinds[place][0], colour: recording.kinds[place][1], start, end: end ?? start, count, text }));
      // Times come as where the first interval begins and how long each is, in milliseconds.
      recording.times = recording.times.map(steps => {
        let sum = 0;
        return steps.map(step => (sum += step) / 1000);
      });
    }
    return data;
  }

  // --- what a value reads like, as in the rest of the report

  function number(value) {
    if (Math.abs(value) >= 100) return Math.round(Number(value.toPrecision(4))).toLocaleString("en");
    return String(Number(value.toPrecision(3)));
  }
  function scaled(value, steps) {
    const [unit, size] = steps.find(([, size]) => Math.abs(value) >= size) ?? steps.at(-1);
    return `${number(value / size)} ${unit}`;
  }
  const BYTES = ["TB", "GB", "MB", "kB", "B"].map((unit, at) => [unit, 1024 ** (4 - at)]);
  const SECONDS = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]];
  const moment = value => String(Number(value.toFixed(value < 100 ? 2 : 1)));
  const bytes = value => value === 0 ? "0 B" : scaled(value, BYTES);
  const seconds = value => value === 0 ? "0 s" : scaled(value, SECONDS);
  const WORDS = {
    "ratio": value => `${number(value * 100)} %`,
    "1/s": value => `${number(value)}/s`,
    "bytes/s": value => `${bytes(value)}/s`,
    bytes,
    "s": seconds,
    "count": number,
  };
  const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);

  // Of a recording with a begin by the clock, a moment is the time of day (UTC); of others, seconds of its window.
  const ROUND = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  function clock(unix, withDay) {
    const text = new Date(unix * 1000).toISOString();
    return withDay ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 19);
  }
  function roundMoments(began, min, max, step) {
    const found = [];
    for (let at = Math.ceil((began + min) / step) * step; at <= began + max; at += step) found.push(at - began);
    return found;
  }

  function markWords({ kind, start, end, count, text }, began) {
    const at = began === undefined ? seconds(start) : clock(began + start);
    const many = count > 1 ? ` (${number(count)} of them)` : "", lasted = end > start ? `, ${seconds(end - start)} long` : "";
    return `${kind}${many} at ${at}${lasted}${text && ": "}${text}`;
  }

  const make = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const cut = text => text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // --- from recordings to what uPlot draws

  // Of two recordings, the panels of the same title stand in one; lines of the second are broken.
  function panelsOf(here, beside) {
    const titles = [...new Set([here, beside].flatMap(one => one ? one.panels.map(panel => panel.title) : []))];
    return titles.map(title => {
      const lines = [], shown = beside ? [here, beside] : [here];
      let unit;
      for (const recording of shown) {
        const panel = recording.panels.find(one => one.title === title);
        if (!panel) continue;
        unit = panel.unit;
        for (const trace of panel.traces) {
          const label = beside ? `${recording.name}: ${trace.label}` : trace.label;
          lines.push({ label, trace, recording, isBeside: recording === beside });
        }
      }
      return { title, unit, lines };
    });
  }

  // Of all recordings, each quantity has a panel of its own, with a line for each of them.
  function quantitiesOf(shown) {
    const found = new Map();
    shown.forEach((recording, at) => {
      for (const { title, unit, traces } of recording.panels) for (const trace of traces) {
        const name = title.toLowerCase() === trace.label.toLowerCase() ? title : `${title}: ${trace.label}`;
        if (!found.has(name)) found.set(name, { title: name, unit, lines: [] });
        const line = { ...trace, colour: at % COLOURS + 1 };
        found.get(name).lines.push({ label: cut(recording.name), trace: line, recording, isBeside: at >= COLOURS });
      }
    });
    return [...found.values()];
  }

  // A line of steps has one time more than it has intervals: where the first of them begins. An interval
  // without a value is a gap from its begin to its end; just before that end, so that the next line
  // begins at the end itself.
  function table({ trace, recording }) {
    const edges = recording.times[trace.times], times = [edges[0]], values = [trace.values[0]];
    trace.values.forEach((value, at) => {
      const begin = edges[at], end = edges[at + 1], next = trace.values[at + 1];
      times.push(value === null ? end - (end - begin) * 1e-6 : end);
      values.push(value);
      if (value === null && next !== null && next !== undefined) {
        times.push(end);
        values.push(next);
      }
    });
    return [times, values];
  }

  function series(panel, { label, trace, isBeside }) {
    const words = WORDS[panel.unit];
    return {
      label,
      stroke: colour(`--trace-${trace.colour}`),
      width: 1.25,
      dash: isBeside ? [4, 3] : undefined,
      alpha: isBeside ? 0.8 : 1,
      paths: uPlot.paths.stepped({ align: -1 }),
      points: { show: false },
      value: (_, value) => value == null ? "–" : words(value),
    };
  }

  // The value at a moment is that of the interval it lies in: the first that ends at it or after it.
  function intervalAt(plot, line, nearest, time) {
    const times = plot.data[0], values = plot.data[line];
    let at = nearest;
    while (at > 0 && times[at - 1] >= time) at--;
    while (at < times.length - 1 && times[at] < time) at++;
    if (line > 0) while (at < times.length - 1 && values[at] === undefined) at++;
    return at;
  }

  // --- one figure

  class Series {
    constructor(root, { here, others, overlay, all }) {
      this.root = root;
      this.here = recordings[here];
      this.others = others.map(at => recordings[at]);
      this.beside = overlay === null ? null : recordings[overlay];
      this.quantities = all ? quantitiesOf([this.here, ...this.others]) : null;
      this.first = this.quantities?.filter(one => FIRST.includes(one.title)) ?? [];
      if (!this.first.length) this.first = this.quantities?.slice(0, 2) ?? [];
      this.chosen = this.first;
      this.still = root.querySelector(".still");
      this.live = make("div", "live");
      this.tip = make("div", "tip");
      this.tip.hidden = true;
      this.plots = [];
      this.shaded = new Set();
      if (!all) this.shadeFew(this.here.kinds);
      this.controls = this.makeControls();
      this.body = make("div");
      this.live.append(this.controls, this.body);
      this.still.before(this.live);
      root.append(this.tip);
      this.draw();
      this.still.hidden = true; // from here on nothing can go wrong any more
      new ResizeObserver(() => this.resize()).observe(this.live);
    }

    shadeFew(kinds) {
      for (const [kind] of kinds) {
        const many = this.here.marks.reduce((sum, mark) => sum + (mark.kind === kind ? mark.count : 0), 0);
        if (many <= FEW) this.shaded.add(kind);
      }
    }

    // Shows another recording in the place of this one: of a run under way, with what has been seen since.
    renew(here) {
      const before = this.here, isWhole = this.from === 0 && this.to === this.length;
      const lines = ({ name, panels }) => JSON.stringify([name, panels.map(one => [one.title, one.traces.map(({ label }) => label)])]);
      const { from, to } = this;
      this.here = here;
      this.shadeFew(here.kinds.filter(([kind]) => !before.kinds.some(([known]) => known === kind)));
      if (lines(here) !== lines(before)) return this.draw();
      panelsOf(here).forEach((panel, at) => this.plots[at].setData(uPlot.join(panel.lines.map(table)), false));
      return isWhole ? this.show(0, this.length) : this.show(from, to);
    }

    moment(time, words = seconds) {
      return this.here.began === undefined ? words(time) : clock(this.here.began + time);
    }

    axisWords(time) {
      const { began } = this.here;
      return began === undefined ? `${Number(time.toPrecision(6))} s` : clock(began + time, this.to - this.from > 2 * 86400);
    }

    get length() {
      const beside = this.quantities ? this.others : this.beside ? [this.beside] : [];
      return Math.max(this.here.length, ...beside.map(one => one.length)) || 1;
    }

    makeControls() {
      const controls = make("div", "controls"), zoom = make("span", "zoom");
      if (this.quantities) controls.append(this.makeChoiceOfQuantity());
      else if (this.others.length) controls.append(this.makeChoice());
      const button = (text, name, act) => {
        const made = make("button", "", text);
        made.type = "button";
        made.title = name;
        made.setAttribute("aria-label", name);
        made.addEventListener("click", act);
        zoom.append(made);
      };
      button("+", "Look closer", () => this.zoom(0.5));
      button("−", "See more of the window", () => this.zoom(2));
      button("◂", "Earlier", () => this.move(-0.25));
      button("▸", "Later", () => this.move(0.25));
      button("Whole window", "Show the whole window", () => this.show(0, this.length));
      this.shown = make("output", "shown");
      controls.append(zoom, this.shown, make("span", "hint", "Drag across a panel to look closer; double-click for the whole window."));
      return controls;
    }

    makeChoice() {
      const label = make("label", "", "Compare with "), choice = make("select");
      choice.append(new Option("nothing", ""));
      this.others.forEach((one, at) => choice.append(new Option(one.name, at, false, one === this.beside)));
      choice.addEventListener("change", () => {
        this.beside = choice.value === "" ? null : this.others[Number(choice.value)];
        this.draw();
      });
      label.append(choice);
      return label;
    }

    makeChoiceOfQuantity() {
      const label = make("label", "", "Show "), choice = make("select");
      choice.append(new Option(this.first.map(one => one.title).join(", "), "first"));
      this.quantities.forEach((one, at) => choice.append(new Option(one.title, at)));
      choice.append(new Option("all of them", "all"));
      choice.addEventListener("change", () => {
        const { value } = choice;
        this.chosen = value === "first" ? this.first : value === "all" ? this.quantities : [this.quantities[Number(value)]];
        this.draw();
      });
      label.append(choice);
      return label;
    }

    draw() {
      for (const plot of this.plots) plot.destroy();
      this.body.replaceChildren();
      this.from = 0;
      this.to = this.length;
      this.lanes = make("div", "lanes");
      this.body.append(this.lanes);
      const panels = this.quantities ? this.chosen : panelsOf(this.here, this.beside);
      this.plots = panels.map((panel, at) => this.drawPanel(panel, at === panels.length - 1));
      this.afterZoom();
    }

    drawPanel(panel, isLast) {
      const place = make("div", "panel"), words = WORDS[panel.unit];
      const head = make("div", "panel-head");
      head.append(make("div", "panel-title", panel.title));
      place.append(head);
      this.body.append(place);
      const ink = colour("--muted"), grid = { stroke: colour("--rule"), width: 1 };
      const axis = { stroke: ink, grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      const options = {
        width: this.live.clientWidth,
        height: (panel.lines.length > 3 ? TALL : HEIGHT) + (isLast ? AXIS : 0),
        padding: [6, RIGHT, isLast ? 0 : 6, 0],
        scales: {
          x: { time: false, min: this.from, max: this.to },
          // Every scale begins at 0: half as high is half as much.
          y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] },
        },
        axes: [
          {
            ...axis, size: isLast ? AXIS : 0, values: (_, splits) => splits.map(time => isLast ? this.axisWords(time) : ""),
            ...(this.here.began === undefined ? {} : { incrs: ROUND, splits: (_, at, min, max, step) => roundMoments(this.here.began, min, max, step) }),
          },
          {
            ...axis, size: GUTTER, gap: 4, space: 26, values: (_, splits) => splits.map(words),
            ...(panel.unit.startsWith("bytes") ? { incrs: BINARY } : {}),
          },
        ],
        series: [{ label: "at", value: (_, time) => time == null ? "–" : this.moment(time) }, ...panel.lines.map(line => series(panel, line))],
        legend: { mount: (_, legend) => head.append(legend), markers: { width: 2, dash: (_, at) => panel.lines[at - 1]?.isBeside ? "dashed" : "solid" } },
        cursor: {
          y: false,
          points: { show: false },
          dataIdx: intervalAt,
          drag: { x: true, y: false, setScale: true, dist: 4 },
          sync: { key: this.root.id },
          bind: { dblclick: () => () => { this.show(0, this.length); } },
        },
        hooks: {
          drawClear: [plot => this.shade(plot)],
          setScale: [(plot, key) => {
            const { min, max } = plot.scales.x;
            if (key === "x" && min !== null && (min !== this.from || max !== this.to)) this.show(min, max);
          }],
        },
      };
      const plot = new uPlot(options, uPlot.join(panel.lines.map(table)), place);
      plot.over.addEventListener("mousemove", event => this.point(plot, event));
      plot.over.addEventListener("mouseleave", () => { this.tip.hidden = true; });
      place.querySelector(".u-legend")?.setAttribute("role", "presentation"); // no table of data
      for (const label of head.querySelectorAll(".u-series:not(:first-child) th")) {
        label.tabIndex = 0;
        label.setAttribute("role", "button");
        label.title = "Show or hide this line";
        label.addEventListener("keydown", event => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          label.click();
        });
      }
      return plot;
    }

    // --- zooming: one stretch of time for all panels

    show(from, to) {
      const length = this.length, width = Math.min(Math.max(to - from, length * NEAREST_ZOOM), length);
      this.from = Math.min(Math.max(from, 0), length - width);
      this.to = this.from + width;
      for (const plot of this.plots) plot.setScale("x", { min: this.from, max: this.to });
      this.afterZoom();
    }

    zoom(factor) {
      const middle = (this.from + this.to) / 2, half = (this.to - this.from) * factor / 2;
      this.show(middle - half, middle + half);
    }

    move(share) {
      const way = (this.to - this.from) * share;
      this.show(this.from + way, this.to + way);
    }

    afterZoom() {
      const unit = this.here.began === undefined ? " s" : " UTC";
      this.shown.value = `${this.moment(this.from, moment)} to ${this.moment(this.to, moment)}${unit}`;
      this.drawLanes();
    }

    resize() {
      const width = this.live.clientWidth;
      if (!width) return;
      for (const plot of this.plots) if (plot.width !== width) plot.setSize({ width, height: plot.height });
    }

    // --- what happened

    drawLanes() {
      const focused = document.activeElement?.dataset.kind;
      const lanes = [];
      if (!this.quantities) for (const recording of this.beside ? [this.here, this.beside] : [this.here]) {
        for (const [kind] of recording.kinds) lanes.push(this.lane(recording, kind));
      }
      this.lanes.replaceChildren(...lanes);
      if (focused !== undefined) {
        [...this.lanes.querySelectorAll("button")].find(one => one.dataset.kind === focused)?.focus();
      }
    }

    lane(recording, kind) {
      const marks = recording.marks.filter(mark => mark.kind === kind);
      const isBeside = recording === this.beside, many = marks.reduce((sum, mark) => sum + mark.count, 0);
      const lane = make("div", isBeside ? "lane beside" : "lane"), track = make("div", "track");
      const name = `${this.beside ? `${recording.name}: ` : ""}${kind} × ${number(many)}`;
      lane.append(isBeside ? make("div", "", name) : this.shadeButton(kind, name), track);
      const span = this.to - this.from;
      for (const mark of marks) {
        if (mark.end < this.from || mark.start > this.to) continue;
        const box = make("i", `mark-${mark.colour}`);
        box.style.left = `${(mark.start - this.from) / span * 100}%`;
        box.style.width = `${(mark.end - mark.start) / span * 100}%`;
        box.title = markWords(mark, recording.began);
        track.append(box);
      }
      return lane;
    }

    shadeButton(kind, name) {
      const button = make("button", "", name);
      button.type = "button";
      button.title = "Shade its time in all panels, or don't";
      button.dataset.kind = kind;
      button.setAttribute("aria-pressed", String(this.shaded.has(kind)));
      button.addEventListener("click", () => {
        if (!this.shaded.delete(kind)) this.shaded.add(kind);
        for (const plot of this.plots) plot.redraw(false);
        this.drawLanes();
      });
      return button;
    }

    // Marks of one kind that overlap are one shade, not a darker one.
    shade(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const [kind, number] of this.here.kinds) {
        if (!this.shaded.has(kind)) continue;
        ctx.beginPath();
        for (const { start, end } of this.here.marks.filter(mark => mark.kind === kind)) {
          const left = plot.valToPos(start, "x", true), right = plot.valToPos(end, "x", true);
          ctx.rect(left, bbox.top, Math.max(right - left, 2 * devicePixelRatio), bbox.height);
        }
        ctx.fillStyle = colour(`--mark-${number}`);
        ctx.globalAlpha = 0.15;
        ctx.fill();
      }
      ctx.restore();
    }

    point(plot, event) {
      const near = 4 * (this.to - this.from) / plot.over.clientWidth; // pixels, as seconds
      const time = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
      const told = this.here.marks.filter(
        mark => this.shaded.has(mark.kind) && mark.start - near <= time && time <= mark.end + near);
      this.tip.hidden = told.length === 0;
      if (!told.length) return;
      const most = 5, words = told.slice(0, most).map(mark => markWords(mark, this.here.began));
      if (told.length > most) words.push(`and ${told.length - most} more`);
      this.tip.textContent = words.join("\n");
      const frame = this.root.getBoundingClientRect();
      const left = event.clientX - frame.left + 12;
      this.tip.style.left = `${Math.max(Math.min(left, frame.width - this.tip.offsetWidth), 0)}px`;
      this.tip.style.top = `${event.clientY - frame.top + 14}px`;
    }
  }

  // --- each figure is drawn when it is first seen, and again when the colours change

  const drawn = new Map();
  function drawOpened() {
    figures.forEach((figure, at) => {
      const root = document.getElementById(`series-${at}`);
      if (!drawn.has(at) && !root.closest("details:not([open])")) drawn.set(at, new Series(root, figure));
    });
  }
  document.addEventListener("toggle", drawOpened, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const one of drawn.values()) one.draw();
  });
  document.addEventListener("series", event => {
    const data = read(event.detail);
    for (const [at, one] of drawn) one.renew(data.recordings[data.figures[at].here]);
  });
  drawOpened();
})();
