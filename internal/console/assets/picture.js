import { count, h, plain, say } from "./dom.js";
import { colors, states, summary } from "./states.js";
import { squarify } from "./treemap.js";

const header = 22, margin = 5, gap = 2;

// The most that the user can zoom in.
const closest = 40;

// describePlace returns what a screen reader says of a cluster.
export function describePlace(p) {
  const name = p.name || "in no cluster";
  return [name, p.region && `region ${p.region}`, p.ready === false && "not ready", count(p.objects, "workload"), summary(p.states),
    p.arriving > 0 && `${p.arriving} arriving`, p.leaving > 0 && `${p.leaving} leaving`].filter(Boolean).join(", ");
}

// picture returns a picture of clusters: a canvas that the user can zoom, move, and walk through with the arrow keys. choose is called with
// the cluster that the user chooses.
export function picture({ choose }) {
  const canvas = h("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "picture of clusters",
    "aria-label": "Clusters, grouped. Use the arrow keys to go from cluster to cluster, and Enter to choose one. The table has the same data.",
  });
  const tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const element = h("div", { class: "picture" }, canvas, tip);
  const zoom = h("div", { class: "zoom" },
    h("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 1.5) }, "+"),
    h("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 1 / 1.5) }, "−"),
    h("button", { type: "button", onclick: () => fit() }, "Fit"));
  const context = canvas.getContext("2d");
  let groups = [], tiles = [], matches = () => true, selected = null, color = colors();
  let view = { scale: 1, x: 0, y: 0 }, asked = false;

  // lay lays out the clusters. The picture at scale 1 fills the canvas.
  function lay(given, weight) {
    groups = given.map((group) => ({ ...group, weight: group.places.reduce((sum, p) => sum + weight(p), 0) }));
    tiles = [];
    const boxes = squarify(groups, (group) => group.weight, { x: 0, y: 0, w: canvas.clientWidth || 800, h: canvas.clientHeight || 500 });
    groups.forEach((group, i) => {
      group.box = boxes[i];
      const inner = { x: group.box.x + margin, y: group.box.y + header, w: Math.max(1, group.box.w - 2 * margin), h: Math.max(1, group.box.h - header - margin) };
      squarify(group.places, weight, inner).forEach((box, j) => tiles.push({ place: group.places[j], box }));
    });
    ask();
  }

  // ask draws once before the next frame.
  function ask() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  }

  const place = (box) => ({ x: box.x * view.scale + view.x, y: box.y * view.scale + view.y, w: box.w * view.scale, h: box.h * view.scale });

  function draw() {
    const ratio = devicePixelRatio, w = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, w, height);
    context.textBaseline = "alphabetic";
    for (const group of groups) {
      const box = place(group.box);
      if (box.x > w || box.y > height || box.x + box.w < 0 || box.y + box.h < 0) continue;
      rounded({ x: box.x + 1, y: box.y + 1, w: box.w - 2, h: box.h - 2 }, 7);
      context.fillStyle = color.surface;
      context.fill();
      context.strokeStyle = color.line;
      context.lineWidth = 1;
      context.stroke();
      const x = Math.max(box.x, 0) + 8, room = Math.min(box.x + box.w, w) - x - 6;
      label(group.name, x, Math.max(box.y + 15, Math.min(15, box.y + box.h - 6)), room, `600 12px ${font}`, color.text, group.places[0].name === "" ? "" : ` ${count(group.places.length, "cluster")}`);
    }
    for (const tile of tiles) {
      const box = place(tile.box);
      if (box.x > w || box.y > height || box.x + box.w < 0 || box.y + box.h < 0) continue;
      paint(tile, { x: box.x + gap / 2, y: box.y + gap / 2, w: Math.max(1, box.w - gap), h: Math.max(1, box.h - gap) });
    }
    context.globalAlpha = 1;
  }

  const font = "system-ui, sans-serif";

  function rounded(box, radius) {
    context.beginPath();
    context.roundRect(box.x, box.y, Math.max(0, box.w), Math.max(0, box.h), Math.min(radius, box.w / 4, box.h / 4));
  }

  // paint draws a cluster: its name on top, and below it the share of the workloads in each state, the gravest first.
  function paint({ place: p }, box) {
    context.globalAlpha = matches(p) ? 1 : 0.18;
    const titled = box.h >= 46 && box.w >= 56;
    const top = titled ? 20 : 0;
    context.save();
    rounded(box, 4);
    context.clip();
    context.fillStyle = titled ? color.title : color.empty;
    context.fillRect(box.x, box.y, box.w, box.h);
    shares(p, { x: box.x, y: box.y + top, w: box.w, h: box.h - top }, titled);
    context.restore();
    if (p === selected) {
      rounded({ x: box.x - 1, y: box.y - 1, w: box.w + 2, h: box.h + 2 }, 5);
      context.strokeStyle = color.accent;
      context.lineWidth = 3;
      context.stroke();
    }
    const name = p.name || "no cluster";
    if (titled) label(name, box.x + 6, box.y + 14, box.w - 12, `600 12px ${font}`, color.text);
    else if (box.w >= 30 && box.h >= 15) label(name, box.x + 4, box.y + box.h / 2 + 4, box.w - 8, `11px ${font}`, color["tile-text"]);
  }

  // shares draws the share of the workloads in each state.
  function shares(p, box, titled) {
    if (p.objects === 0) {
      context.fillStyle = color.empty;
      context.fillRect(box.x, box.y, box.w, box.h);
      if (p.ready === false) hatch(box);
      if (titled) label("no workloads", box.x + 6, box.y + 15, box.w - 10, `11px ${font}`, color.faint);
      return;
    }
    const present = states.filter((state) => p.states[state] > 0);
    // Even one workload in trouble is to be seen among thousands.
    const least = Math.min(5, box.h / present.length / 2);
    let y = box.y, rest = box.h;
    const texts = [];
    present.forEach((state, i) => {
      const part = i === present.length - 1 ? rest : Math.min(Math.max(least, box.h * p.states[state] / p.objects), rest - least * (present.length - 1 - i));
      context.fillStyle = color[`${state.toLowerCase()}-tile`];
      context.fillRect(box.x, y, box.w, part + 0.5);
      if (titled && part >= 16) {
        const n = p.states[state].toLocaleString("en");
        texts.push([box.w >= 90 ? `${n} ${state.toLowerCase()}` : n, y + Math.min(part / 2 + 4, 15)]);
      }
      y += part;
      rest -= part;
    });
    if (p.ready === false) {
      hatch(box);
      if (titled && y - texts.at(-1)?.[1] > 20) texts.push(["not ready", texts.at(-1)[1] + 14]);
    }
    for (const [text, at] of texts) label(text, box.x + 6, at, box.w - 10, `11px ${font}`, color["tile-text"]);
  }

  // label writes a text, and a fainter one behind it, as far as there is room.
  function label(text, x, y, room, style, fill, more = "") {
    context.font = style;
    context.fillStyle = fill;
    let out = plain(text);
    if (context.measureText(out).width > room) {
      // Names of clusters often differ at their ends.
      const start = out.slice(0, 3);
      let end = out.slice(4);
      while (end.length > 2 && context.measureText(`${start}…${end}`).width > room) end = end.slice(1);
      if (context.measureText(`${start}…${end}`).width <= room) context.fillText(`${start}…${end}`, x, y);
      return;
    }
    context.fillText(out, x, y);
    if (more === "") return;
    const width = context.measureText(out).width;
    context.font = style.replace("600 ", "");
    if (width + context.measureText(more).width > room) return;
    context.fillStyle = color.faint;
    context.fillText(more, x + width, y);
  }

  // hatch marks a cluster that is not ready.
  function hatch(box) {
    context.strokeStyle = color.hatch;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let x = box.x - box.h; x < box.x + box.w; x += 8) {
      context.moveTo(x, box.y + box.h);
      context.lineTo(x + box.h, box.y);
    }
    context.stroke();
  }

  function bounded() {
    const w = canvas.clientWidth, height = canvas.clientHeight;
    view.scale = Math.min(closest, Math.max(1, view.scale));
    view.x = Math.min(0, Math.max(w - w * view.scale, view.x));
    view.y = Math.min(0, Math.max(height - height * view.scale, view.y));
    ask();
  }

  function zoomAt(x, y, factor) {
    const scale = Math.min(closest, Math.max(1, view.scale * factor));
    const by = scale / view.scale;
    view = { scale, x: x - (x - view.x) * by, y: y - (y - view.y) * by };
    bounded();
  }

  function fit() {
    view = { scale: 1, x: 0, y: 0 };
    ask();
  }

  // zoomTo shows a box as large as possible.
  function zoomTo(box) {
    const w = canvas.clientWidth, height = canvas.clientHeight;
    const scale = Math.min(closest, w / box.w, height / box.h);
    view = { scale, x: w / 2 - (box.x + box.w / 2) * scale, y: height / 2 - (box.y + box.h / 2) * scale };
    bounded();
  }

  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  }

  function under({ x, y }) {
    const px = (x - view.x) / view.scale, py = (y - view.y) / view.scale;
    return tiles.find(({ box }) => px >= box.x && px < box.x + box.w && py >= box.y && py < box.y + box.h);
  }

  let drag = null, hovered = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { ...at(event), from: { ...view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const p = at(event);
    if (drag) {
      drag.moved ||= Math.hypot(p.x - drag.x, p.y - drag.y) > 4;
      if (drag.moved) {
        view = { scale: view.scale, x: drag.from.x + p.x - drag.x, y: drag.from.y + p.y - drag.y };
        bounded();
      }
      return;
    }
    const tile = under(p);
    if (tile?.place === hovered && tile) return move(p);
    hovered = tile?.place ?? null;
    tip.hidden = !tile;
    if (tile) {
      tip.textContent = plain(describePlace(tile.place));
      move(p);
    }
  });
  function move({ x, y }) {
    tip.style.left = `${Math.min(x + 14, Math.max(0, canvas.clientWidth - 260))}px`;
    tip.style.top = `${y + 16}px`;
  }
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
    hovered = null;
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = drag?.moved;
    drag = null;
    if (moved) return;
    const tile = under(at(event));
    if (tile) pick(tile.place, true);
  });
  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = at(event);
    const px = (x - view.x) / view.scale, py = (y - view.y) / view.scale;
    const group = groups.find(({ box }) => px >= box.x && px < box.x + box.w && py >= box.y && py < box.y + box.h);
    if (group) zoomTo(group.box);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = at(event);
    zoomAt(x, y, Math.exp(-event.deltaY * 0.0015));
  }, { passive: false });

  const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && selected) return choose(selected);
    if (event.key === "+" || event.key === "-") return zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, event.key === "+" ? 1.5 : 1 / 1.5);
    if (event.key === "0") return fit();
    const direction = directions[event.key];
    if (!direction) return;
    event.preventDefault();
    const next = neighbour(direction);
    if (next) pick(next.place, false);
  });

  // neighbour returns the nearest cluster in a direction; the first one if none is selected.
  function neighbour([dx, dy]) {
    const from = tiles.find((tile) => tile.place === selected);
    if (!from) return tiles[0];
    const middle = ({ box }) => [box.x + box.w / 2, box.y + box.h / 2];
    const [x, y] = middle(from);
    let best, least = Infinity;
    for (const tile of tiles) {
      const [tx, ty] = middle(tile);
      const along = (tx - x) * dx + (ty - y) * dy, across = Math.abs((tx - x) * dy) + Math.abs((ty - y) * dx);
      if (tile === from || along <= 0.5) continue;
      if (along + 2 * across < least) [best, least] = [tile, along + 2 * across];
    }
    return best;
  }

  function pick(p, open) {
    selected = p;
    say(describePlace(p));
    ask();
    if (open) choose(p);
  }

  const resized = new ResizeObserver(() => element.dispatchEvent(new Event("resized")));
  resized.observe(canvas);
  const themed = () => {
    color = colors();
    ask();
  };
  document.addEventListener("themed", themed);

  return {
    element, zoom, lay, fit,
    // filter shows the clusters paler that do not match.
    filter(f) {
      matches = f;
      ask();
    },
    select(p) {
      selected = p;
      ask();
    },
    end() {
      resized.disconnect();
      document.removeEventListener("themed", themed);
    },
  };
}
