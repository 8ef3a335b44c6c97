import { describe, expect, it } from "vitest";
import type { Flow } from "../types.gen";
import { layout, merged, others, shades } from "./flows";
import { arrange } from "./treemap";

describe("flows", () => {
  const many: Flow[] = Array.from({ length: 40 }, (_, i) => ({ from: `from-${i}`, to: i % 2 === 0 ? "" : `to-${i}`, pending: i % 3 === 0, objects: i + 1 }));

  it("joins the smaller flows, and loses none", () => {
    const list = merged(many);
    expect(list.reduce((sum, flow) => sum + flow.objects, 0)).toBe(820);
    expect(new Set(list.map((flow) => flow.from)).size).toBe(13);
    expect(list.some((flow) => flow.from === others)).toBe(true);
  });

  it("explains each shade once", () => {
    const flows = [{ pending: true }, { pending: true, planned: true }, { pending: true }, { pending: false, to: "" }].map((flow) => ({ from: "a", to: "b", objects: 1, ...flow }));
    expect(shades(flows).map(({ kind }) => kind)).toEqual(["removed", "pending", "pending planned"]);
    const all = [...many, ...many.map((flow) => ({ ...flow, to: "b", planned: true })), ...many.map((flow) => ({ ...flow, planned: true }))];
    expect(shades(all)).toHaveLength(6);
  });

  it("draws an end for each cluster, and none over another one", () => {
    const { graph, height } = layout([...many, { from: "a", to: "a", pending: false, objects: 3 }], "wide");
    for (const side of ["from", "to"]) {
      const ends = graph.nodes.filter((end) => end.side === side).sort((a, b) => a.y0! - b.y0!);
      ends.slice(1).forEach((end, i) => expect(end.y0! - ends[i]!.y1!).toBeGreaterThan(14));
      expect(ends.at(-1)!.y1!).toBeLessThanOrEqual(height);
    }
  });
});

describe("arrange", () => {
  it("gives each item an area within its group", () => {
    const groups = ["a", "b"].map((name) => ({ name, items: [1, 2, 3] }));
    const { groups: placed, tiles } = arrange(groups, (n) => n, 600, 400);
    expect(placed).toHaveLength(2);
    expect(tiles).toHaveLength(6);
    for (const { box } of tiles) {
      const inside = placed.some((g) => box.x >= g.box.x && box.y >= g.box.y && box.x + box.w <= g.box.x + g.box.w + 1e-6 && box.y + box.h <= g.box.y + g.box.h + 1e-6);
      expect(inside).toBe(true);
    }
  });
});
