import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

/** Column is a column of a table. The user can sort by it if it has a function sort. */
export interface Column<Row> {
  title: string;
  numeric?: boolean;
  cell: (row: Row) => ComponentChildren;
  sort?: (row: Row) => string | number;
}

const step = 200;

/** Table shows rows, some at first and more if the user wants; all of them if the caller has only some. The columns of a fixed one keep their widths. */
export function Table<Row>({ caption, columns, rows, empty = "None.", more, all = false, fixed = false }: {
  caption: string; columns: Column<Row>[]; rows: readonly Row[]; empty?: string; more?: ComponentChildren; all?: boolean; fixed?: boolean;
}) {
  const [shown, setShown] = useState(all ? Infinity : step);
  const [order, setOrder] = useState<{ by: string; descending: boolean } | null>(null);
  const sorted = useMemo(() => {
    const of = columns.find((column) => column.title === order?.by)?.sort;
    if (!order || !of) return rows;
    const sign = order.descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const x = of(a), y = of(b);
      return sign * (typeof x === "number" && typeof y === "number" ? compare(x, y) : String(x).localeCompare(String(y), "en", { numeric: true }));
    });
  }, [rows, order]);
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const sort = (column: Column<Row>) => {
    setOrder({ by: column.title, descending: order?.by === column.title ? !order.descending : Boolean(column.numeric) });
  };
  return (
    <div class="table" tabIndex={0} role="region" aria-label={caption}>
      <table role="table" class={fixed ? "fixed" : undefined}>
        <caption class="hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.title} scope="col" role="columnheader" class={column.numeric ? "number" : undefined}
                aria-sort={order?.by === column.title ? (order.descending ? "descending" : "ascending") : undefined}>
                {column.sort ? <button type="button" onClick={() => sort(column)}>{column.title}</button> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {sorted.slice(0, shown).map((row, i) => (
            <tr key={i} role="row">
              {columns.map((column, j) => {
                const Cell = j === 0 ? "th" : "td";
                return <Cell key={column.title} role={j === 0 ? "rowheader" : "cell"} scope={j === 0 ? "row" : undefined} data-title={column.title} class={column.numeric ? "number" : undefined}><div class="cell">{column.cell(row)}</div></Cell>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
      <div class="more">
        {shown < rows.length
          ? <button type="button" onClick={() => setShown(shown + step)}>Show {Math.min(step, rows.length - shown)} more of {rows.length.toLocaleString("en")}</button>
          : more}
      </div>
    </div>
  );
}

// compare also compares infinite numbers, whose difference is no number.
function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
