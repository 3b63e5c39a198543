"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const LANE = 28, GROUP = 24, LEFT = 160, AXIS = 24, MEMORY = 140, ROOFLINE = 340, SHORTEST_VIEW_NS = 1000;
const EXPOSED = 8, IDLE = 9;  // colours

// Texts.
function fixed(value, digits) {
  return Number(value.toPrecision(digits)).toString();
}
function seconds(ns) {
  const s = Math.abs(ns) / 1e9;
  if (ns === 0) return "0 s";
  if (s >= 1) return fixed(ns / 1e9, s >= 100 ? 5 : 3) + " s";
  if (s >= 1e-3) return fixed(ns / 1e6, 3) + " ms";
  return fixed(ns / 1e3, 3) + " us";
}
function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < 4) { count /= 1024; ++unit; }
  return (unit ? count.toFixed(1) : count) + " " + units[unit];
}
const percent = share => (100 * share).toFixed(1) + " %";

// Elements.
const byId = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const color = number => css("--c" + number);
function element(tag, parent, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}
function legend(entries) {
  const list = element("div", document.body, undefined, "legend");
  for (const [name, number] of entries) {
    const entry = element("span", list);
    element("i", entry).style.background = `var(--c${number})`;
    entry.append(name);
  }
}
function bar(parent, { parts, whole_ns }) {
  const holder = element("div", parent, undefined, "bar");
  for (const [name, ns, number] of parts) {
    const piece = element("span", holder);
    piece.style.width = 100 * ns / Math.max(whole_ns, 1) + "%";
    piece.style.background = `var(--c${number})`;
    piece.title = `${name}: ${seconds(ns)}, ${percent(ns / Math.max(whole_ns, 1))}`;
  }
}
// Of a text what fits, the end left out.
function fitted(context, text, width) {
  const full = context.measureText(text).width;
  if (full <= width) return text;
  const kept = Math.floor(text.length * (width - 10) / full);
  return kept >= 3 ? text.slice(0, kept) + "…" : "";
}
function showTip(event, text) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.style.display = text ? "block" : "none";
  tip.style.left = Math.max(0, Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.min(event.clientY + 14, Math.max(0, window.innerHeight - tip.offsetHeight - 8)) + "px";
}

// Charts: a canvas each. `draw(context, width)` draws one, `tip(x, y, width)` says what is at a place.
const charts = [];
function chart(height, label, draw, tip) {
  const node = element("canvas", document.body);
  node.style.height = height + "px";
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", label);
  node.addEventListener("pointermove", event => {
    const box = node.getBoundingClientRect();
    showTip(event, event.buttons ? "" : tip(event.clientX - box.left, event.clientY - box.top, node.clientWidth));
  });
  node.addEventListener("pointerleave", event => showTip(event, ""));
  charts.push({ node, height, draw });
  return node;
}
function drawAll() {
  for (const { node, height, draw } of charts) {
    const ratio = window.devicePixelRatio || 1;
    node.width = node.clientWidth * ratio;
    node.height = height * ratio;
    const context = node.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    draw(context, node.clientWidth);
  }
}
let drawingIsDue = false;
function drawSoon() {
  if (drawingIsDue) return;
  drawingIsDue = true;
  requestAnimationFrame(() => { drawingIsDue = false; drawAll(); });
}

// The view: what is to be seen of the time, the same in all charts over time.
const view = { begin: data.begin_ns, end: data.end_ns };
const showAll = () => setView(data.begin_ns, data.end_ns);
const span = () => Math.max(view.end - view.begin, 1);
const timeAt = (x, width) => view.begin + (x - LEFT) / (width - LEFT) * span();
const placeOf = (ns, width) => LEFT + (ns - view.begin) / span() * (width - LEFT);
function setView(begin, end) {
  const length = Math.min(Math.max(end - begin, SHORTEST_VIEW_NS), data.end_ns - data.begin_ns);
  view.begin = Math.min(Math.max(data.begin_ns, begin), data.end_ns - length);
  view.end = view.begin + length;
  drawSoon();
}
const zoom = (at, factor) => setView(at - (at - view.begin) * factor, at + (view.end - at) * factor);
const move = share => setView(view.begin + share * span(), view.end + share * span());
const KEYS = {
  "+": () => zoom((view.begin + view.end) / 2, 0.6), "-": () => zoom((view.begin + view.end) / 2, 1 / 0.6),
  ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), "0": showAll,
};
function timeChart(height, label, draw, tip) {
  const node = chart(height, label, draw, tip);
  node.classList.add("moves");
  node.tabIndex = 0;
  let from;
  node.addEventListener("wheel", event => {
    event.preventDefault();
    const x = event.clientX - node.getBoundingClientRect().left;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / (node.clientWidth - LEFT));
    else zoom(timeAt(x, node.clientWidth), Math.exp(event.deltaY * 0.0015));
  }, { passive: false });
  node.addEventListener("pointerdown", event => { from = event.clientX; node.setPointerCapture(event.pointerId); });
  node.addEventListener("pointerup", () => { from = undefined; });
  node.addEventListener("pointercancel", () => { from = undefined; });
  node.addEventListener("pointermove", event => {
    if (from === undefined) return;
    move((from - event.clientX) / (node.clientWidth - LEFT));
    from = event.clientX;
  });
  node.addEventListener("dblclick", showAll);
  node.addEventListener("keydown", event => {
    if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
  });
}
// Round times, some 120 pixels apart, with a line through the chart.
function timeAxis(context, width, height) {
  const wanted = span() / Math.max(1, (width - LEFT) / 120), power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= wanted);
  const [unit, scale] = view.end >= 1e9 ? ["s", 1e9] : view.end >= 1e6 ? ["ms", 1e6] : ["us", 1e3];
  const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)));
  for (let i = Math.ceil(view.begin / step); i * step <= view.end; ++i) {
    const x = placeOf(i * step, width), text = (i * step / scale).toFixed(digits) + " " + unit;
    context.fillStyle = css("--line");
    context.fillRect(x, 0, 1, height - AXIS + 5);
    const half = context.measureText(text).width / 2;
    context.fillStyle = css("--quiet");
    context.textAlign = "center";
    context.fillText(text, Math.min(Math.max(x, LEFT + half), width - half - 4), height - AXIS / 2 + 2);
  }
  context.textAlign = "left";
}
function firstWhere(count, holds) {  // false, ..., false, true, ..., true
  let low = 0, high = count;
  while (low < high) { const middle = (low + high) >> 1; if (holds(middle)) high = middle; else low = middle + 1; }
  return low;
}

// Lanes. A slice is six numbers: begin, duration, category, name or -n for n drawn together, detail, bytes.
const BEGIN = 0, DURATION = 1, CATEGORY = 2, NAME = 3, DETAIL = 4, BYTES = 5, FIELDS = 6;
function lanesPanel(panel) {
  element("p", document.body, "Wheel or + and −: zoom. Drag or arrow keys: move. Double click or 0: all of it." + (panel.resolution_ns
    ? ` Of the ${panel.unit} those shorter than ${seconds(panel.resolution_ns)} are drawn together.` : ""), "quiet");
  legend(panel.categories.filter(([name]) => name));
  const rows = [];  // [top, lane]
  let top = 4, group = "";
  for (const lane of panel.lanes) {
    if (lane.group !== group) { rows.push([top, { group: lane.group }]); top += GROUP; group = lane.group; }
    rows.push([top, lane]);
    top += LANE;
  }
  const nameOf = (slices, i) =>
    slices[i + NAME] >= 0 ? panel.texts[slices[i + NAME]] : `${-slices[i + NAME]} ${panel.unit}`;
  const firstAfter = (slices, ns) =>
    FIELDS * firstWhere(slices.length / FIELDS, i => slices[FIELDS * i + BEGIN] + slices[FIELDS * i + DURATION] > ns);
  function drawLane(context, width, y, lane, colors) {
    context.fillStyle = css("--text");
    context.fillText(fitted(context, lane.name, LEFT - 16), 8, y + LANE / 2);
    context.save();
    context.beginPath(); context.rect(LEFT, y, width - LEFT, LANE); context.clip();
    const { slices } = lane;
    for (let i = firstAfter(slices, view.begin); i < slices.length && slices[i + BEGIN] < view.end; i += FIELDS) {
      const x = placeOf(slices[i + BEGIN], width), end = placeOf(slices[i + BEGIN] + slices[i + DURATION], width);
      context.fillStyle = colors[slices[i + CATEGORY]];
      context.fillRect(x, y + 3, Math.max(end - x - (end - x > 3 ? 0.6 : 0), 0.6), LANE - 6);
      const from = Math.max(x, LEFT) + 5, room = Math.min(end, width) - from - 5;
      if (room > 24) {
        context.fillStyle = panel.categories[slices[i + CATEGORY]][1] === IDLE ? css("--text") : "#ffffff";
        context.fillText(fitted(context, nameOf(slices, i), room), from, y + LANE / 2 + 0.5);
      }
    }
    context.restore();
  }
  timeChart(top + AXIS, "lanes of " + panel.unit, (context, width) => {
    timeAxis(context, width, top + AXIS);
    const colors = panel.categories.map(([, number]) => color(number));
    for (const [y, lane] of rows) {
      if (lane.slices) { drawLane(context, width, y, lane, colors); continue; }
      context.fillStyle = css("--panel");
      context.fillRect(0, y + 2, width, GROUP - 4);
      context.fillStyle = css("--quiet");
      context.fillText(fitted(context, lane.group, width - 16), 8, y + GROUP / 2);
    }
  }, (x, y, width) => {
    const row = rows.findLast(([rowTop]) => rowTop <= y), slices = row?.[1].slices, ns = timeAt(x, width);
    if (!slices || y > row[0] + LANE || x < LEFT) return "";
    const i = firstAfter(slices, ns);
    if (i >= slices.length || slices[i + BEGIN] > ns) return "";
    const moved = slices[i + BYTES], took = slices[i + DURATION];
    return [nameOf(slices, i), panel.texts[slices[i + DETAIL]], `${seconds(took)} from ${seconds(slices[i + BEGIN])}`,
      moved ? bytes(moved) + (took ? `, ${(moved / took).toFixed(1)} GB/s` : "") : ""].filter(line => line).join("\n");
  });
}

// Memory in use, parts stacked. A point is its time and the bytes of each part from then on.
const PARTS = [0, 2, 4, 1, 5, 3];
function memoryPanel(panel) {
  const peak = Math.max(1, ...panel.points.map(point => point.slice(1).reduce((a, b) => a + b, 0)));
  const most = panel.reserved_bytes || peak;
  const pointAt = ns => panel.points[Math.max(0, firstWhere(panel.points.length, i => panel.points[i][0] > ns) - 1)];
  const height = MEMORY - AXIS - 22, floor = height + 18;
  legend(panel.parts.map((name, i) => [name, PARTS[i % PARTS.length]]));
  timeChart(MEMORY, panel.tier, (context, width) => {
    timeAxis(context, width, MEMORY);
    context.fillStyle = css("--text");
    context.fillText(fitted(context, panel.tier, LEFT - 16), 8, floor - height);
    context.fillStyle = css("--quiet");
    context.fillText(bytes(most) + (panel.reserved_bytes ? " planned" : " at most"), 8, floor - height + 17);
    for (let x = LEFT; x < width && panel.points.length; ++x) {
      let y = floor;
      pointAt(timeAt(x, width)).slice(1).forEach((part, i) => {
        const tall = part / Math.max(most, peak) * height;
        context.fillStyle = color(PARTS[i % PARTS.length]);
        context.fillRect(x, y - tall, 1, tall);
        y -= tall;
      });
    }
    context.strokeStyle = color(EXPOSED);
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(LEFT, floor - height * most / Math.max(most, peak));
    context.lineTo(width, floor - height * most / Math.max(most, peak));
    context.stroke();
  }, (x, y, width) => {
    if (x < LEFT || !panel.points.length) return "";
    const ns = timeAt(x, width), point = pointAt(ns);
    return `${panel.tier} at ${seconds(ns)}: ${bytes(point.slice(1).reduce((a, b) => a + b, 0))}\n` +
      panel.parts.map((name, i) => `${name}: ${bytes(point[i + 1])}`).join("\n");
  });
}

// Rows of text and bars.
function tablePanel(panel) {
  const body = element("table", element("div", document.body, undefined, "scroll"));
  const left = panel.head.map(name => name.startsWith("<"));
  const head = element("tr", body);
  panel.head.forEach((name, i) => element("th", head, left[i] ? name.slice(1) : name, left[i] ? "text" : ""));
  for (const cells of panel.rows) {
    const row = element("tr", body);
    cells.forEach((cell, i) => {
      if (cell.parts) { bar(element("td", row, undefined, "bars"), cell); return; }
      const made = element("td", row, cell, left[i] ? "text" : "");
      if (left[i]) made.title = cell;
    });
  }
}

// TFLOP/s over FLOPs per byte, both logarithmic, under the roofs of the machine.
function rooflinePanel(panel) {
  const bandwidth = Math.max(...panel.roofs.filter(roof => roof.memory).map(roof => roof.per_second));
  const flat = panel.roofs.filter(roof => !roof.memory), highest = Math.max(...flat.map(roof => roof.per_second));
  const values = key => panel.points.map(point => point[key]).filter(value => value > 0);
  const decades = list => [Math.floor(Math.log10(Math.min(...list))), Math.ceil(Math.log10(Math.max(...list)))];
  const [left, right] = decades([...values("intensity"), highest / bandwidth / 10, highest / bandwidth * 10]);
  const [bottom, top] = decades([...values("per_second"), highest * 1.5, highest / 100]);
  const floor = ROOFLINE - AXIS - 14, ceiling = 26, inside = 56;
  const placeX = (intensity, width) => inside + (Math.log10(intensity) - left) / (right - left) * (width - inside - 12);
  const placeY = rate => floor - (Math.log10(rate) - bottom) / (top - bottom) * (floor - ceiling);
  legend([...new Map(panel.points.map(point => [point.color, point.group]))].map(([number, name]) => [name, number]));
  function grid(context, width) {
    context.fillStyle = css("--quiet");
    context.textAlign = "center";
    for (let power = left; power <= right; ++power) {
      const x = placeX(10 ** power, width);
      context.fillText(Number((10 ** power).toPrecision(1)).toString(), Math.min(x, width - 20), floor + 12);
    }
    context.fillText("FLOPs per byte", (inside + width) / 2, floor + 28);
    context.fillText("TFLOP/s", inside, 12);
    context.textAlign = "right";
    for (let power = bottom; power <= top; ++power) {
      context.fillText(Number((10 ** (power - 12)).toPrecision(1)).toString(), inside - 8, placeY(10 ** power));
    }
    context.strokeStyle = css("--line");
    for (let power = left; power <= right; ++power) line(context, placeX(10 ** power, width), ceiling, placeX(10 ** power, width), floor);
    for (let power = bottom; power <= top; ++power) line(context, inside, placeY(10 ** power), width - 12, placeY(10 ** power));
    context.textAlign = "left";
  }
  function roofs(context, width) {
    context.strokeStyle = context.fillStyle = css("--text");
    context.lineWidth = 1.4;
    for (const roof of flat) {
      const ridge = roof.per_second / bandwidth, y = placeY(roof.per_second);
      line(context, placeX(Math.max(ridge, 10 ** left), width), y, width - 12, y);
      const label = `${roof.name}, ${(roof.per_second / 1e12).toFixed(0)} TFLOP/s`;
      context.fillText(label, width - 16 - context.measureText(label).width, y - 9);
    }
    const start = Math.max(10 ** left, 10 ** bottom / bandwidth), end = highest / bandwidth;
    line(context, placeX(start, width), placeY(start * bandwidth), placeX(end, width), placeY(highest));
    const at = Math.sqrt(start * end);
    context.textAlign = "right";
    context.fillText(`${panel.roofs.find(roof => roof.memory).name}, ${(bandwidth / 1e9).toFixed(0)} GB/s`,
      placeX(at, width) - 10, placeY(at * bandwidth) - 6);
    context.textAlign = "left";
  }
  // Names under their points, those that find room.
  function names(context, width) {
    const taken = [];
    context.fillStyle = css("--quiet");
    for (const point of panel.points) {
      const long = context.measureText(point.name).width, y = placeY(point.per_second) + 14;
      const x = Math.min(placeX(point.intensity, width) - long / 2, width - 12 - long);
      if (taken.some(([tx, ty, tlong]) => Math.abs(ty - y) < 13 && x < tx + tlong && tx < x + long)) continue;
      taken.push([x, y, long]);
      context.fillText(point.name, x, y);
    }
  }
  chart(ROOFLINE, "roofline", (context, width) => {
    grid(context, width);
    context.save();
    context.beginPath(); context.rect(inside, 0, width - inside, floor); context.clip();
    roofs(context, width);
    for (const point of panel.points) {
      context.fillStyle = color(point.color);
      context.beginPath();
      context.arc(placeX(point.intensity, width), placeY(point.per_second), 5, 0, 2 * Math.PI);
      context.fill();
    }
    names(context, width);
    context.restore();
  }, (x, y, width) => {
    const distance = point => Math.hypot(placeX(point.intensity, width) - x, placeY(point.per_second) - y);
    const near = panel.points.filter(point => distance(point) < 12).sort((a, b) => distance(a) - distance(b));
    return near.map(point => `${point.name}\n${point.text}`).join("\n");
  });
}
function line(context, x, y, toX, toY) {
  context.beginPath(); context.moveTo(x, y); context.lineTo(toX, toY); context.stroke();
}

const PANELS = {
  notes: panel => panel.lines.forEach((text, i, all) =>
    element("li", i ? document.body.lastChild : element("ul", document.body, undefined, "notes"), text)),
  heading: panel => {
    element("h2", document.body, panel.text);
    if (panel.below) element("p", document.body, panel.below, "quiet");
  },
  bar: panel => {
    bar(document.body, panel);
    legend(panel.parts.map(([name, ns, number]) =>
      [`${name} ${seconds(ns)} (${percent(ns / Math.max(panel.whole_ns, 1))})`, number]));
  },
  table: tablePanel, lanes: lanesPanel, memory: memoryPanel, roofline: rooflinePanel,
};
document.title = data.title;
element("h1", document.body, data.title);
element("p", document.body, data.facts, "quiet");
element("div", document.body).id = "tip";
data.panels.forEach(panel => PANELS[panel.kind](panel));
window.addEventListener("resize", drawSoon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
drawAll();
document.documentElement.dataset.drawn = "yes";
