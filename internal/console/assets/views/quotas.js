import { get } from "../api.js";
import { append, badge, count, h, note, replace } from "../dom.js";
import { table } from "../table.js";

// show shows the quotas.
export async function show(page) {
  const { quotas, notes } = await get("quotas");
  const body = h("div", { class: "quota-list" });
  const draw = (text) => replace(body, quotas.filter((q) => `${q.namespace ?? ""}/${q.name}`.includes(text)).map(quota));
  draw("");
  append(page,
    h("h1", {}, "Quotas"),
    notes.map((text) => note(text)),
    quotas.length === 0 ? h("p", { class: "empty" }, "There is no ScopedQuota and no ClusterScopedQuota.") : [
      h("p", { class: "legend" }, h("span", { class: "key used" }), "used by objects ", h("span", { class: "key reserved" }), "reserved: admitted, and the object is not seen yet ",
        h("span", { class: "key over" }), "above the limit"),
      quotas.length > 6 && h("input", { type: "search", placeholder: "Namespace or name", "aria-label": "Show quotas by namespace or name", oninput: (event) => draw(event.target.value.trim()) }),
      body,
    ]);
}

function quota(q) {
  return h("section", { class: "card" },
    h("h2", {}, q.namespace ? `${q.namespace}/${q.name}` : q.name, " ", h("small", {}, q.kind)),
    h("p", { class: "facts" }, q.mode === "Enforce" ? "enforced" : `mode ${q.mode}`,
      q.selectedNamespaces !== undefined && ` · ${count(q.selectedNamespaces, "namespace")} share it`,
      q.scopes.length > 0 && ` · counts only ${q.scopes.join(", ")}`),
    q.ready && note(q.ready),
    q.amounts.map(amount),
    q.namespaces.length > 0 && h("details", {}, h("summary", {}, "Usage by namespace"), table({
      caption: `Usage of ${q.name} by namespace`, rows: q.namespaces,
      columns: [
        { title: "Namespace", cell: (n) => n.namespace, sort: (n) => n.namespace },
        ...q.amounts.map((a) => ({ title: a.resource, numeric: true, cell: (n) => n.used[a.resource] ?? "0" })),
      ],
    })));
}

function amount(a) {
  const objects = Math.max(0, a.usedShare - a.reservedShare);
  const part = (name, share) => {
    const span = h("span", { class: name });
    span.style.width = `${Math.min(100, share * 100)}%`;
    return span;
  };
  const over = a.usedShare > 1;
  return h("div", { class: "usage" },
    h("span", {}, a.resource),
    h("div", { class: "bar", role: "img", "aria-label": `${a.used} of ${a.hard} used, ${a.reserved} of it reserved` },
      over ? part("over", 1) : [part("used", objects), part("reserved", Math.min(a.usedShare, a.reservedShare))]),
    h("span", {}, `${a.used} of ${a.hard}`, a.reservedShare > 0 && h("small", {}, ` ${a.reserved} reserved`), over && badge("violating", "exceeded")));
}
