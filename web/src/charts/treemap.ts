import { hierarchy, treemap } from "d3-hierarchy";

/** Box is a rectangle. */
export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Group is a group of items with a name. */
export interface Group<Item> {
  name: string;
  items: Item[];
}

/** Tile is an item with its place. */
export interface Tile<Item> {
  item: Item;
  box: Box;
}

/** The room for the name of a group, and around its items. */
const header = 22, margin = 5;

interface Node<Item> {
  group?: Group<Item>;
  item?: Item;
  children?: Node<Item>[];
}

/** arrange returns places for groups and their items, with areas in proportion to weights. */
export function arrange<Item>(groups: Group<Item>[], weight: (item: Item) => number, w: number, h: number): { groups: (Group<Item> & { box: Box })[]; tiles: Tile<Item>[] } {
  const root = hierarchy<Node<Item>>({ children: groups.map((group) => ({ group, children: group.items.map((item) => ({ item })) })) })
    .sum((node) => (node.item === undefined ? 0 : weight(node.item)))
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const placed = treemap<Node<Item>>().size([w, h])
    .paddingTop((node) => (node.depth === 1 ? header : 0))
    .paddingRight((node) => (node.depth === 1 ? margin : 0)).paddingBottom((node) => (node.depth === 1 ? margin : 0)).paddingLeft((node) => (node.depth === 1 ? margin : 0))(root);
  const boxOf = (node: { x0: number; y0: number; x1: number; y1: number }) => ({ x: node.x0, y: node.y0, w: node.x1 - node.x0, h: node.y1 - node.y0 });
  const out = { groups: [] as (Group<Item> & { box: Box })[], tiles: [] as Tile<Item>[] };
  for (const node of placed.descendants()) {
    if (node.data.group) out.groups.push({ ...node.data.group, box: boxOf(node) });
    if (node.data.item !== undefined) out.tiles.push({ item: node.data.item, box: boxOf(node) });
  }
  return out;
}
