/** Contract says in short what Rego of a policy reads and decides. */
export function Contract() {
  return (
    <details class="contract" onToggle={(event) => { if (event.currentTarget.open) event.currentTarget.scrollIntoView({ block: "nearest" }); }}>
      <summary>What a policy can read and decide</summary>
      <dl>
        <dt><code>input</code></dt><dd>The object, as its developer requested it.</dd>
        <dt><code>data.clusters[name]</code></dt><dd><code>labels</code>, <code>annotations</code>, <code>properties</code>, <code>region</code>, <code>zones</code>, <code>provider</code>, <code>version</code>, <code>ready</code>, <code>allocatable</code>, <code>taints</code></dd>
        <dt><code>data.nodes[name]</code></dt><dd>The nodes. Other types are <code>data.TYPE[name]</code>, or <code>data.TYPE[namespace][name]</code>.</dd>
        <dt><code>clusters</code></dt><dd>A set of the names of clusters in which the object may run.</dd>
        <dt><code>annotations</code>, <code>labels</code></dt><dd>Values that the object gets, by key.</dd>
        <dt><code>scheduling</code></dt><dd>Fields of the pod template, such as <code>nodeSelector</code>.</dd>
        <dt><code>errors</code>, <code>warnings</code></dt><dd>Sets of messages that deny the object, or warn the client.</dd>
      </dl>
    </details>
  );
}
