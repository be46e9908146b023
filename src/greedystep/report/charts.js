"use strict";
// Draws the charts of every `div.charts` from the JSON inside it, which elements.chart_data describes.
{
  const WIDTH = 360, HEIGHT = 220;
  const LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 34;
  const MIDDLE = (LEFT + WIDTH - RIGHT) / 2;

  const clean = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const pair = (of) => `light-dark(${of.light}, ${of.dark})`;
  const dashes = (method, width) => method.dash.map((part) => part * width).join(" ");
  /** A legend's sample of a line or of a bar. */
  const swatch = (of) => `<svg class="swatch" viewBox="0 0 28 10" aria-hidden="true"><line x1="0" x2="28" y1="5" y2="5"
    stroke-width="${of.dash ? 3 : 9}" stroke-dasharray="${of.dash ? dashes(of, 2) : ""}" style="stroke: ${pair(of)}"/></svg>`;
  const isPressed = (button) => button.getAttribute("aria-pressed") === "true";

  /** About so many round numbers from low to high, and the distance between them. */
  function ticks(low, high, about) {
    const raw = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= raw * 0.999);
    const values = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) values.push(at * step);
    return { values, step };
  }

  /** A number in few characters, precise enough to differ from the next tick: 1.5M, 20k, 0.05. */
  function short(value, step) {
    const size = Math.abs(value);
    const [unit, name] = size > 999999 ? [1e6, "M"] : size > 999 ? [1e3, "k"] : [1, ""];
    const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
    return `${Number((value / unit).toFixed(Math.min(digits, 9)))}${name}`.replace("-", "−");
  }

  /** The ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or powers of ten alone where these are too many. */
  function logTicks(low, high, about) {
    const values = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      values.push(...[1, 2, 5].map((by) => by * 10 ** power));
    }
    const inside = values.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    const tens = inside.filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e9) / 1e9));
    return { values: inside.length <= about * 1.6 || tens.length < 2 ? inside : tens };
  }

  /** The index of the number nearest to `value`, the later of two. */
  const nearest = (list, value) =>
    list.reduce((best, one, i) => (Math.abs(one - value) <= Math.abs(list[best] - value) ? i : best), 0);

  /** Where `value` lies between the ends of an axis, 0 to 1. */
  function share(value, ends, isLog) {
    const [at, low, high] = [value, ...ends].map(isLog ? Math.log : Number);
    return (at - low) / (high - low || 1);
  }

  /** One chart: its box, its vertical axis, and the readout that follows the pointer or the arrow keys. */
  class Panel {
    constructor(figure, quantity, spec) {
      this.figure = figure;
      this.spec = spec;
      this.box = document.createElement("figure");
      this.box.className = "panel";
      this.box.innerHTML = `<figcaption>${clean(spec.title)}</figcaption>
        ${spec.run ? `<small class="run">${clean(spec.run)}</small>` : ""}
        <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" tabindex="0"
          aria-label="${clean(`${spec.title}: ${quantity.label}`)}"></svg>
        <div class="readout" role="status" hidden></div>`;
      this.svg = this.box.querySelector("svg");
      this.readout = this.box.querySelector(".readout");
      this.stops = [];
      for (const kind of ["pointermove", "pointerdown"]) {
        this.svg.addEventListener(kind, (event) => this.point(event));
      }
      for (const kind of ["pointerleave", "blur"]) this.svg.addEventListener(kind, () => this.forget());
      this.svg.addEventListener("keydown", (event) => this.walk(event));
    }

    /** Show the parts of a drawing, or the reason why there is none. */
    show(parts, why) {
      this.forget();
      this.svg.innerHTML = why
        ? `<text x="${WIDTH / 2}" y="${HEIGHT / 2}" text-anchor="middle">${why}</text>`
        : `${parts.join("")}<g class="cursor"></g>`;
    }

    up(value) {
      return HEIGHT - BOTTOM - share(value, this.y, this.spec.logY) * (HEIGHT - TOP - BOTTOM);
    }

    * vertical() {
      const { values, step } = (this.spec.logY ? logTicks : ticks)(...this.y, 5);
      for (const value of values) {
        const y = this.up(value).toFixed(1);
        yield `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y}" y2="${y}"/>`;
        yield `<text x="${LEFT - 5}" y="${y}" dy=".35em" text-anchor="end">${short(value, step || value)}</text>`;
      }
    }

    * below(name, labels) {
      for (const [x, label, anchor] of labels) {
        yield `<text x="${x}" y="${HEIGHT - BOTTOM + 14}" text-anchor="${anchor}">${clean(label)}</text>`;
      }
      yield `<text x="${MIDDLE}" y="${HEIGHT - 5}" text-anchor="middle">${name}</text>`;
    }

    point(event) {
      const frame = this.svg.getBoundingClientRect();
      this.go(((event.clientX - frame.left) / frame.width) * WIDTH);
    }

    walk(event) {
      const last = this.stops.length - 1;
      const to = { ArrowRight: this.stop + 1, ArrowLeft: this.stop - 1, Home: 0, End: last }[event.key];
      if (event.key === "Escape") this.forget();
      if (to === undefined || last < 0) return;
      event.preventDefault();
      this.go(this.stops[Math.max(0, Math.min(last, to))]);
    }

    /** Show the values at a place of the drawing: `read` gives a heading, rows of cells, and the marks to draw. */
    go(place) {
      if (!this.stops.length) return;
      this.stop = nearest(this.stops, place);
      const { words, rows, marks } = this.read(this.stop);
      const cells = ([of, ...rest]) =>
        `<td>${swatch(of)}${clean(of.label)}</td>${rest.map((cell) => `<td>${cell}</td>`).join("")}`;
      this.svg.querySelector(".cursor").innerHTML = marks;
      this.readout.innerHTML = `${clean(words)}<table>${rows.map((row) => `<tr>${cells(row)}</tr>`).join("")}</table>`;
      const isRight = this.stops[this.stop] > MIDDLE;
      this.readout.style.left = isRight ? "0" : "auto";
      this.readout.style.right = isRight ? "auto" : "0";
      this.readout.hidden = false;
    }

    forget() {
      this.stop = -1;
      this.readout.hidden = true;
      const cursor = this.svg.querySelector(".cursor");
      if (cursor) cursor.innerHTML = "";
    }
  }

  /** Lines with their bands. */
  class Lines extends Panel {
    draw() {
      const { methods, grids } = this.figure.data;
      this.shown = this.spec.curves
        .filter((one) => isPressed(this.figure.methods[one.method]) && one.y.some((value) => value !== null))
        .map((one) => ({ ...one, x: grids[one.grid], of: methods[one.method] }));
      this.stops = [];
      if (!this.shown.length) {
        this.show([], this.spec.curves.length ? "nothing selected" : "no data");
        return;
      }
      const values = this.shown.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]);
      const known = values.filter((value) => value !== null);
      const low = Math.min(...known), high = Math.max(...known);
      const margin = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
      const factor = (high / low) ** 0.04 || 1.1;
      this.y = this.spec.logY ? [low / factor, high * factor] : [low - margin, high + margin];
      this.steps = [...new Set(this.shown.flatMap((one) => one.x))].sort((a, b) => a - b);
      this.x = [this.steps[0], this.steps.at(-1)];
      this.stops = this.steps.map((step) => this.right(step));
      const bands = this.shown.filter((one) => one.low).map((one) => this.band(one));
      this.show([...this.vertical(), ...this.horizontal(), ...bands, ...this.shown.map((one) => this.line(one))]);
    }

    right(step) {
      return LEFT + share(step, this.x, this.spec.logX) * (WIDTH - LEFT - RIGHT);
    }

    * horizontal() {
      const { values, step } = (this.spec.logX ? logTicks : ticks)(...this.x, 5);
      const at = (value) => this.right(value).toFixed(1);
      for (const x of values.map(at)) {
        yield `<line class="grid" x1="${x}" x2="${x}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>`;
      }
      const anchor = (value) => (this.right(value) > WIDTH - RIGHT - 12 ? "end" : "middle");
      const labels = values.map((value) => [at(value), short(value, step || value), anchor(value)]);
      yield* this.below(clean(this.spec.x), labels);
    }

    /** Runs of known values, each a list of points. */
    stretches(one, part) {
      const found = [[]];
      one[part].forEach((value, i) => {
        if (value === null) found.push([]);
        else found[found.length - 1].push(`${this.right(one.x[i]).toFixed(1)},${this.up(value).toFixed(1)}`);
      });
      return found.filter((points) => points.length);
    }

    line(one) {
      const d = this.stretches(one, "y").map((points) => `M${points.join("L")}${points.length > 1 ? "" : "h1"}`);
      return `<path data-method="${one.method}" d="${d.join("")}" style="stroke: ${pair(one.of)}"
        stroke-dasharray="${dashes(one.of, 1.8)}"/>`;
    }

    band(one) {
      const lower = this.stretches(one, "low");
      const d = this.stretches(one, "high").map((points, i) => `M${points.join("L")}L${lower[i].reverse().join("L")}Z`);
      return `<path class="band" data-method="${one.method}" d="${d.join("")}" style="fill: ${pair(one.of)}"/>`;
    }

    read(stop) {
      const step = this.steps[stop], x = this.right(step).toFixed(1);
      // Methods may have points at different steps; one that ended long before is left out.
      const near = 0.02 * (WIDTH - LEFT - RIGHT);
      const points = this.shown.map((one) => ({ one, i: nearest(one.x, step) }))
        .filter(({ one, i }) => one.y[i] !== null && Math.abs(this.right(one.x[i]) - x) <= near)
        .sort((a, b) => b.one.y[b.i] - a.one.y[a.i]);
      const dots = points.map(({ one, i }) =>
        `<circle class="dot" r="3" cx="${x}" cy="${this.up(one.y[i]).toFixed(1)}" style="fill: ${pair(one.of)}"/>`);
      const number = (value) =>
        (this.spec.logY ? value.toLocaleString("en") : value.toFixed(this.spec.digits)).replace("-", "−");
      const between = ({ low, high }, i) => (low && low[i] !== null ? `${number(low[i])} to ${number(high[i])}` : "");
      return {
        words: `${this.spec.x} ${step.toLocaleString("en")}`,
        rows: points.map(({ one, i }) => [one.of, number(one.y[i]), between(one, i)]),
        marks: `<line class="rule" x1="${x}" x2="${x}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>${dots.join("")}`,
      };
    }
  }

  /** Groups of bars over the same bins. */
  class Bars extends Panel {
    draw() {
      const { bins, bars } = this.spec;
      this.y = [0, Math.max(...bars.flatMap((one) => one.values)) * 1.15];
      this.each = (WIDTH - LEFT - RIGHT) / bins.length;
      this.stops = bins.map((_, bin) => LEFT + this.each * (bin + 0.5));
      this.show([...this.vertical(), ...this.horizontal(), ...bars.map((one, place) => this.group(one, place))]);
    }

    * horizontal() {
      const widest = 8 + 6 * Math.max(...this.spec.bins.map((name) => name.length));
      const every = Math.ceil(widest / this.each);
      const labels = this.spec.bins.map((name, bin) => [this.stops[bin].toFixed(1), name, "middle"]);
      yield* this.below(clean(this.spec.x), labels.filter((_, bin) => bin % every === 0));
    }

    group(one, place) {
      const wide = (this.each * 0.8) / this.spec.bars.length, base = this.up(0).toFixed(1);
      const d = one.values.map((value, bin) => {
        const x = LEFT + this.each * (bin + 0.1) + wide * place;
        return `M${x.toFixed(1)},${base}V${this.up(value).toFixed(1)}h${wide.toFixed(1)}V${base}Z`;
      });
      const x = LEFT + 8 + place * 150;
      return `<path d="${d.join("")}" style="fill: ${pair(one)}"/>
        <rect x="${x}" y="${TOP}" width="9" height="9" style="fill: ${pair(one)}"/>
        <text x="${x + 13}" y="${TOP + 8}">${clean(one.label)}</text>`;
    }

    read(bin) {
      const { bins, bars } = this.spec;
      return { words: `${this.spec.x} ${bins[bin]}`, rows: bars.map((one) => [one, one.values[bin]]), marks: "" };
    }
  }

  /** A group of charts with one legend. */
  class Figure {
    constructor(box) {
      this.data = JSON.parse(box.querySelector("script").textContent);
      this.methods = this.data.methods.map((method) => this.button(method.label, method.shown, swatch(method)));
      const groups = this.data.quantities.map((quantity) => this.group(quantity));
      this.panels = groups.flatMap((one) => one.panels);
      if (this.methods.length > 1) box.append(this.legend());
      if (groups.length > 1) box.append(this.choices("Quantities", groups.map((one) => one.button)));
      const all = document.createElement("div");
      all.className = groups.every((one) => one.panels.length === 1) ? "panels" : "";  // one task: side by side
      all.append(...groups.map((one) => one.element));
      box.append(all);
      this.draw();
    }

    draw() {
      for (const panel of this.panels) panel.draw();
    }

    /** A button; a toggle if `pressed` is given. */
    button(label, pressed, before = "") {
      const button = document.createElement("button");
      button.type = "button";
      button.innerHTML = `${before}${clean(label)}`;
      if (pressed !== undefined) button.setAttribute("aria-pressed", pressed);
      return button;
    }

    choices(label, buttons) {
      const box = document.createElement("div");
      box.className = "choices";
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", label);
      box.append(...buttons);
      return box;
    }

    legend() {
      const press = (buttons, on) => {
        for (const button of buttons) button.setAttribute("aria-pressed", on);
        this.draw();
      };
      for (const one of this.methods) one.addEventListener("click", () => press([one], !isPressed(one)));
      const all = this.button("all"), none = this.button("none");
      all.addEventListener("click", () => press(this.methods, true));
      none.addEventListener("click", () => press(this.methods, false));
      const box = this.choices("Methods", [...this.methods, all, none]);
      box.classList.add("legend");
      return box;
    }

    group(quantity) {
      const element = document.createElement("div");
      element.innerHTML = `<h3>${clean(quantity.label)}</h3><div class="panels"></div>`;
      element.hidden = !quantity.shown;
      const panels = quantity.panels.map((spec) => new (spec.bins ? Bars : Lines)(this, quantity, spec));
      element.lastElementChild.append(...panels.map((panel) => panel.box));
      const button = this.button(quantity.label, quantity.shown);
      button.addEventListener("click", () => {
        element.hidden = !element.hidden;
        button.setAttribute("aria-pressed", !element.hidden);
      });
      return { element, panels, button };
    }
  }

  for (const box of document.querySelectorAll("div.charts")) new Figure(box);
}
