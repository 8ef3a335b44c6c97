// Rectangles with areas in proportion to weights: a squarified treemap, by Bruls, Huizing, and van Wijk.

// squarify returns a rectangle within a box for each item, in the order of the items. weight returns a positive number.
export function squarify(items, weight, box) {
  const total = items.reduce((sum, item) => sum + weight(item), 0);
  const order = items.map((item, i) => ({ i, area: weight(item) / total * box.w * box.h })).sort((a, b) => b.area - a.area || a.i - b.i);
  const out = new Array(items.length);
  let { x, y, w, h } = box;
  for (let start = 0; start < order.length;) {
    const side = Math.min(w, h);
    let end = start + 1, sum = order[start].area;
    // The areas fall, so the first and the last one of a row have the extreme ratios.
    const worst = (areas, last) => Math.max(side * side * order[start].area / (areas * areas), areas * areas / (side * side * last));
    while (end < order.length && worst(sum + order[end].area, order[end].area) <= worst(sum, order[end - 1].area)) {
      sum += order[end].area;
      end++;
    }
    const depth = side > 0 ? sum / side : 0;
    let at = 0;
    for (; start < end; start++) {
      const length = sum > 0 ? order[start].area / sum * side : 0;
      out[order[start].i] = w >= h ? { x, y: y + at, w: depth, h: length } : { x: x + at, y, w: length, h: depth };
      at += length;
    }
    if (w >= h) {
      x += depth;
      w -= depth;
    } else {
      y += depth;
      h -= depth;
    }
  }
  return out;
}
