import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin, type ServerOptions } from "vite";

const root = dirname(fileURLToPath(import.meta.url));

// licenses writes the licences of the packages that are in the build into licenses.txt.
function licenses(): Plugin {
  return {
    name: "licenses",
    generateBundle(_options, bundle) {
      const folders = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of chunk.moduleIds) {
          const found = /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id);
          if (found?.[1]) folders.add(relative(root, found[1]));
        }
      }
      const texts = [...folders].sort().map((folder) => {
        const about = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as { name: string; version: string; license: string };
        const file = readdirSync(join(root, folder)).find((name) => /^licen[cs]e/i.test(name));
        if (!file) throw new Error(`${about.name} has no file with its licence`);
        return `${about.name} ${about.version} (${about.license})\n\n${readFileSync(join(root, folder, file), "utf8").trim()}\n`;
      });
      const line = `\n${"-".repeat(80)}\n\n`;
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: `The pages of the console contain these packages.\n${line}${texts.join(line)}` });
    },
  };
}

// development returns what passes requests for data to a console. link is the link that kubectl berth console --no-browser prints.
async function development(link: string | undefined): Promise<ServerOptions> {
  if (!link) return {};
  const { origin } = new URL(link), response = await fetch(link), cookie = response.headers.get("Set-Cookie")?.split(";")[0];
  if (!cookie) throw new Error(`${await response.text()} Start the console again, and set CONSOLE_LINK to the link that it prints.`);
  return { proxy: { "/api": { target: origin, changeOrigin: true, headers: { Cookie: cookie, Origin: origin } } } };
}

export default defineConfig(async ({ command }) => ({
  root,
  // Behind the service proxy of an API server, the console has a path before its own.
  base: "./",
  plugins: [licenses()],
  build: {
    outDir: "../internal/console/assets",
    emptyOutDir: true,
    target: "es2022",
    // The policy for content allows only files.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The editor is a chunk of its own, which only the playground loads.
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      // The responses are not cached, so names need no hashes, and a build changes few lines.
      output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
  server: command === "serve" ? await development(process.env["CONSOLE_LINK"]) : {},
}));
