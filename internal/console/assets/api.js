// The endpoints of the console.

async function read(response) {
  const body = await response.json().catch(() => ({ error: `the console responded with the status ${response.status}` }));
  if (!response.ok) throw new Error(body.error);
  return body;
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Error("The console does not respond. Is kubectl berth console still running?");
  }
  if (response.headers.get("Content-Type") !== "application/json") throw new Error(await response.text());
  return read(response);
}

// get returns what an endpoint returns for parameters. Parameters that are undefined are left out.
export function get(name, parameters = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined));
  return send(`/api/${name}?${query}`, options);
}

// post sends a value to an endpoint.
export function post(name, value = {}, options = {}) {
  return send(`/api/${name}`, { ...options, method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
}
