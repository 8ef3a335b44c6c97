import { inState, summary } from "../states";
import { count, plain, say } from "../text";
import { type Amount, type FleetState, fleetStates, type Place } from "../types.gen";
import { arrange, type Box, type Group, type Tile } from "./treemap";

/** The gap between clusters, in pixels. */
const gap = 2;

/** pale is how opaque what does not match is. */
const pale = 0.18;

/** The most that the user can zoom in. */
const closest = 40;

const font = "system-ui, sans-serif";

/** The size of the smallest letters, in pixels. */
const smallest = 10;

/** describePlace returns what a screen reader says of a cluster. */
export function describePlace(p: Place): string {
  return [
    p.name || "in no cluster", p.region && `region ${p.region}`, p.ready === false && "not ready", count(p.objects, "workload"), summary(p.states),
    p.arriving > 0 && `${p.arriving} arriving`, p.leaving > 0 && `${p.leaving} leaving`,
  ].filter(Boolean).join(", ");
}

// usage says how much of a cluster is in use, in texts of which the first ones say more.
function usage(p: Place): string[] {
  const share = (title: string, of?: Amount) => (of?.used === undefined || of.allocatable <= 0 ? "" : `${title} ${Math.round((of.used / of.allocatable) * 100)} %`);
  const texts = [share("CPU", p.cpu), share("memory", p.memory)].filter((text) => text !== "");
  return [texts.join(" · "), ...texts];
}

interface Point {
  x: number;
  y: number;
}

const directions: Record<string, Point> = {
  ArrowLeft: { x: -1, y: 0 }, ArrowRight: { x: 1, y: 0 }, ArrowUp: { x: 0, y: -1 }, ArrowDown: { x: 0, y: 1 },
};

/**
 * Picture draws clusters on a canvas, which the user can zoom, move, and walk through with the arrow keys. A canvas stays fluid with
 * thousands of clusters.
 */
export class Picture {
  private readonly context: CanvasRenderingContext2D;
  private readonly color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name.toLowerCase()}`).trim();
  private colors = new Map<string, string>();
  private given: Group<Place>[] = [];
  private weight: (p: Place) => number = () => 1;
  private groups: (Group<Place> & { box: Box })[] = [];
  private tiles: Tile<Place>[] = [];
  private matches: (p: Place) => boolean = () => true;
  private only: FleetState | undefined;
  private selected = "";
  private view = { scale: 1, x: 0, y: 0 };
  private frame = 0;
  private drag: { from: Point; view: Point; moved: boolean } | null = null;
  private hovered: Place | null = null;
  private readonly end = new AbortController();
  private readonly resized = new ResizeObserver(() => this.lay());

  /** choose is called with the cluster that the user chooses, and hover with the one under the pointer. */
  constructor(private readonly canvas: HTMLCanvasElement, private readonly choose: (p: Place) => void, private readonly hover: (p: Place | null, at: Point) => void) {
    const context = canvas.getContext("2d");
    if (!context) throw new Error("This browser can't draw on a canvas. Use the table.");
    this.context = context;
    this.resized.observe(canvas);
    const on = <Name extends keyof HTMLElementEventMap>(name: Name, listener: (event: HTMLElementEventMap[Name]) => void, options = {}) => {
      canvas.addEventListener(name, listener, { signal: this.end.signal, ...options });
    };
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.release(event));
    on("pointerleave", () => this.hover((this.hovered = null), { x: 0, y: 0 }));
    on("dblclick", (event) => this.zoomToGroup(this.at(event)));
    on("wheel", (event) => this.turn(event), { passive: false });
    on("keydown", (event) => this.key(event));
    document.addEventListener("themed", () => {
      this.colors.clear();
      this.draw();
    }, { signal: this.end.signal });
  }

  /** close ends what the picture does in the background. */
  close(): void {
    this.end.abort();
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** show shows clusters in groups. weight returns how large a cluster is. */
  show(groups: Group<Place>[], weight: (p: Place) => number): void {
    this.given = groups;
    this.weight = weight;
    this.lay();
  }

  /** filter shows the clusters paler that do not match, and in the others the states other than only, if that is given. */
  filter(matches: (p: Place) => boolean, only: FleetState | undefined): void {
    this.matches = matches;
    this.only = only;
    this.draw();
  }

  /** select marks a cluster; none if the name is undefined. */
  select(name: string | undefined): void {
    this.selected = name === undefined ? "" : `=${name}`;
    this.draw();
  }

  private isSelected(p: Place): boolean {
    return this.selected === `=${p.name}`;
  }

  /** zoom zooms around the middle. */
  zoom(factor: number): void {
    this.zoomAt({ x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 }, factor);
  }

  /** fit shows the whole picture. */
  fit(): void {
    this.view = { scale: 1, x: 0, y: 0 };
    this.draw();
  }

  private lay(): void {
    const laid = arrange(this.given, this.weight, this.canvas.clientWidth || 800, this.canvas.clientHeight || 500);
    this.groups = laid.groups;
    this.tiles = laid.tiles;
    this.draw();
  }

  /** draw draws once before the next frame. */
  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private of(name: string): string {
    let value = this.colors.get(name);
    if (value === undefined) this.colors.set(name, (value = this.color(name)));
    return value;
  }

  private place(box: Box): Box {
    const { scale, x, y } = this.view;
    return { x: box.x * scale + x, y: box.y * scale + y, w: box.w * scale, h: box.h * scale };
  }

  private isVisible(box: Box): boolean {
    return box.x <= this.canvas.clientWidth && box.y <= this.canvas.clientHeight && box.x + box.w >= 0 && box.y + box.h >= 0;
  }

  private paint(): void {
    const { canvas, context } = this;
    const ratio = devicePixelRatio, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, w, h);
    context.textBaseline = "alphabetic";
    for (const group of this.groups) this.paintGroup(group, this.place(group.box), w);
    for (const { item, box } of this.tiles) {
      const placed = this.place(box);
      if (this.isVisible(placed)) this.paintTile(item, { x: placed.x + gap / 2, y: placed.y + gap / 2, w: Math.max(1, placed.w - gap), h: Math.max(1, placed.h - gap) });
    }
    context.globalAlpha = 1;
  }

  private paintGroup(group: Group<Place>, box: Box, w: number): void {
    if (!this.isVisible(box)) return;
    const { context } = this;
    this.round({ x: box.x + 1, y: box.y + 1, w: box.w - 2, h: box.h - 2 }, 7);
    context.fillStyle = this.of("surface");
    context.fill();
    context.strokeStyle = this.of("line");
    context.lineWidth = 1;
    context.stroke();
    const x = Math.max(box.x, 0) + 8, room = Math.min(box.x + box.w, w) - x - 6;
    const size = group.items[0]?.name === "" ? "" : ` ${count(group.items.length, "cluster")}`;
    this.label(group.name, x, Math.max(box.y + 15, Math.min(15, box.y + box.h - 6)), room, true, "text", size);
  }

  private round(box: Box, radius: number): void {
    this.context.beginPath();
    this.context.roundRect(box.x, box.y, Math.max(0, box.w), Math.max(0, box.h), Math.max(0, Math.min(radius, box.w / 4, box.h / 4)));
  }

  /** paintTile draws a cluster: its name on top, and below it the share of the workloads in each state, the gravest first. */
  private paintTile(p: Place, box: Box): void {
    const { context } = this;
    context.globalAlpha = this.matches(p) ? 1 : pale;
    const titled = box.h >= 46 && box.w >= 56, top = titled ? 20 : 0;
    context.save();
    this.round(box, 4);
    context.clip();
    context.fillStyle = this.of(titled ? "title" : "empty");
    context.fillRect(box.x, box.y, box.w, box.h);
    this.paintShares(p, { x: box.x, y: box.y + top, w: box.w, h: box.h - top }, titled);
    context.restore();
    if (this.isSelected(p)) {
      this.round({ x: box.x - 1, y: box.y - 1, w: box.w + 2, h: box.h + 2 }, 5);
      context.strokeStyle = this.of("accent");
      context.lineWidth = 3;
      context.stroke();
    }
    const name = p.name || "no cluster";
    if (titled) this.label(name, box.x + 6, box.y + 14, box.w - 12, true, "text");
    else if (box.h >= 15) {
      const n = p.objects.toLocaleString("en"), y = box.y + box.h / 2 + 4;
      const written = box.w >= 30 && this.label(name, box.x + 5, y, box.w - 10, false, "tile-text", ` · ${n}`, "tile-text");
      if (!written) this.label(n, box.x + 4, y, box.w - 8, false, "tile-text");
    }
  }

  private paintShares(p: Place, box: Box, titled: boolean): void {
    const { context } = this;
    if (p.objects === 0) {
      context.fillStyle = this.of("empty");
      context.fillRect(box.x, box.y, box.w, box.h);
      if (p.ready === false) this.hatch(box);
      if (titled) this.label("no workloads", box.x + 6, box.y + 15, box.w - 10, false, "faint");
      return;
    }
    const present = fleetStates.filter((state) => inState(p.states, state) > 0);
    // One workload in trouble is visible among thousands.
    const least = Math.min(5, box.h / present.length / 2);
    let y = box.y, rest = box.h;
    const texts: { text: string; y: number; over: string }[] = [];
    const opaque = context.globalAlpha;
    context.font = `${smallest}px ${font}`;
    present.forEach((state, i) => {
      const last = i === present.length - 1;
      const part = last ? rest : Math.min(Math.max(least, (box.h * inState(p.states, state)) / p.objects), rest - least * (present.length - 1 - i));
      context.fillStyle = this.of(`${state}-tile`);
      context.globalAlpha = this.only === undefined || this.only === state ? opaque : opaque * pale;
      context.fillRect(box.x, y, box.w, part + 0.5);
      context.globalAlpha = opaque;
      if (titled && part >= 16) {
        const n = inState(p.states, state).toLocaleString("en"), whole = `${n} ${state.toLowerCase()}`;
        texts.push({ text: context.measureText(whole).width <= box.w - 8 ? whole : n, y: y + Math.min(part / 2 + 4, 16), over: `${state}-tile` });
      }
      y += part;
      rest -= part;
    });
    const last = texts.at(-1);
    if (p.ready === false) this.hatch(box);
    if (titled && last && p.ready === false && y - last.y > 20) texts.push({ text: "not ready", y: last.y + 15, over: last.over });
    if (titled && last && y - last.y > 54) texts.push({ text: usage(p).find((text) => context.measureText(text).width <= box.w - 10) ?? "", y: y - 8, over: last.over });
    for (const { text, y: at, over } of texts) {
      context.font = `11px ${font}`;
      if (p.ready === false && text !== "") this.clear({ x: box.x + 3, y: at - 11, w: Math.min(context.measureText(text).width + 7, box.w - 6), h: 15 }, over);
      this.label(text, box.x + 6, at, box.w - 8, false, "tile-text");
    }
  }

  /** clear fills the place of a text, so that the text is legible on a hatched cluster. */
  private clear(box: Box, color: string): void {
    this.round(box, 3);
    this.context.fillStyle = this.of(color);
    this.context.fill();
  }

  /**
   * label writes a text, and a fainter one behind it, as far as there is room: rather in smaller letters than not whole. It reports whether it
   * wrote any.
   */
  private label(text: string, x: number, y: number, room: number, bold: boolean, color: string, more = "", moreColor = "faint"): boolean {
    const { context } = this;
    const out = plain(text);
    let size = bold ? 12 : 11, width = 0;
    for (; ; size--) {
      context.font = `${bold ? "600 " : ""}${size}px ${font}`;
      width = context.measureText(out).width;
      if (width <= room || size <= smallest) break;
    }
    context.fillStyle = this.of(color);
    if (width > room) {
      // Names of clusters often differ at their ends.
      const start = out.slice(0, 3);
      let end = out.slice(4);
      while (end.length > 2 && context.measureText(`${start}…${end}`).width > room) end = end.slice(1);
      const fits = context.measureText(`${start}…${end}`).width <= room;
      if (fits) context.fillText(`${start}…${end}`, x, y);
      return fits;
    }
    context.fillText(out, x, y);
    context.font = `${size}px ${font}`;
    if (more === "" || width + context.measureText(more).width > room) return true;
    context.fillStyle = this.of(moreColor);
    context.fillText(more, x + width, y);
    return true;
  }

  /** hatch marks a cluster that is not ready. */
  private hatch(box: Box): void {
    const { context } = this;
    context.strokeStyle = this.of("hatch");
    context.lineWidth = 1.5;
    context.beginPath();
    for (let x = box.x - box.h; x < box.x + box.w; x += 8) {
      context.moveTo(x, box.y + box.h);
      context.lineTo(x + box.h, box.y);
    }
    context.stroke();
  }

  private setView(scale: number, x: number, y: number): void {
    const w = this.canvas.clientWidth, h = this.canvas.clientHeight;
    scale = Math.min(closest, Math.max(1, scale));
    this.view = { scale, x: Math.min(0, Math.max(w - w * scale, x)), y: Math.min(0, Math.max(h - h * scale, y)) };
    this.draw();
  }

  private zoomAt({ x, y }: Point, factor: number): void {
    const scale = Math.min(closest, Math.max(1, this.view.scale * factor)), by = scale / this.view.scale;
    this.setView(scale, x - (x - this.view.x) * by, y - (y - this.view.y) * by);
  }

  private zoomToGroup(at: Point): void {
    const group = this.groups.find(({ box }) => contains(box, this.inside(at)));
    if (!group) return;
    const { box } = group, w = this.canvas.clientWidth, h = this.canvas.clientHeight;
    const scale = Math.min(closest, w / box.w, h / box.h);
    this.setView(scale, w / 2 - (box.x + box.w / 2) * scale, h / 2 - (box.y + box.h / 2) * scale);
  }

  private at(event: MouseEvent): Point {
    const bounds = this.canvas.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  }

  /** inside returns the place in the picture at scale 1. */
  private inside({ x, y }: Point): Point {
    return { x: (x - this.view.x) / this.view.scale, y: (y - this.view.y) / this.view.scale };
  }

  private under(at: Point): Place | null {
    return this.tiles.find(({ box }) => contains(box, this.inside(at)))?.item ?? null;
  }

  private press(event: PointerEvent): void {
    this.drag = { from: this.at(event), view: this.view, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const at = this.at(event);
    if (!this.drag) {
      this.hovered = this.under(at);
      this.hover(this.hovered, at);
      return;
    }
    const { from, view } = this.drag;
    this.drag.moved ||= Math.hypot(at.x - from.x, at.y - from.y) > 4;
    if (this.drag.moved) this.setView(this.view.scale, view.x + at.x - from.x, view.y + at.y - from.y);
  }

  private release(event: PointerEvent): void {
    const moved = this.drag?.moved;
    this.drag = null;
    const p = this.under(this.at(event));
    if (p && !moved) {
      this.pick(p);
      this.choose(p);
    }
  }

  private turn(event: WheelEvent): void {
    event.preventDefault();
    this.zoomAt(this.at(event), Math.exp(-event.deltaY * 0.0015));
  }

  private key(event: KeyboardEvent): void {
    const current = this.tiles.find(({ item }) => this.isSelected(item));
    const direction = directions[event.key];
    if (event.key === "Enter" && current) this.choose(current.item);
    else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 1.5 : 1 / 1.5);
    else if (event.key === "0") this.fit();
    else if (direction) {
      event.preventDefault();
      const next = this.neighbor(current, direction);
      if (next) this.pick(next.item);
    }
  }

  /** neighbor returns the nearest cluster in a direction; the first one if none is selected. */
  private neighbor(from: Tile<Place> | undefined, direction: Point): Tile<Place> | undefined {
    if (!from) return this.tiles[0];
    const middle = ({ box }: Tile<Place>) => ({ x: box.x + box.w / 2, y: box.y + box.h / 2 });
    const start = middle(from);
    let best: Tile<Place> | undefined, least = Infinity;
    for (const tile of this.tiles) {
      const { x, y } = middle(tile), dx = x - start.x, dy = y - start.y;
      const along = dx * direction.x + dy * direction.y, across = Math.abs(dx * direction.y) + Math.abs(dy * direction.x);
      if (tile !== from && along > 0.5 && along + 2 * across < least) [best, least] = [tile, along + 2 * across];
    }
    return best;
  }

  private pick(p: Place): void {
    this.select(p.name);
    say(describePlace(p));
  }
}

function contains(box: Box, { x, y }: Point): boolean {
  return x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
}
