// Builds the page: ui/ to dist/ui.
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

/** @returns the packages in it, in the form of esbuild's metafile, for their licences */
export async function buildPage() {
  const root = fileURLToPath(new URL('../ui/', import.meta.url))
  const built = await build({
    root,
    // So that nobody's configuration file is read.
    configFile: false,
    envDir: false,
    base: '/ui/',
    logLevel: 'warn',
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir: '../dist/ui',
      emptyOutDir: true,
      target: 'es2022',
      // The policy of the page allows no data: URLs and no inline scripts.
      assetsInlineLimit: 0,
      modulePreload: false,
      reportCompressedSize: false,
    },
  })
  const inputs = {}
  for (const { moduleIds = [] } of [built].flat().flatMap(({ output }) => output))
    for (const id of moduleIds) {
      const at = id.indexOf('node_modules/')
      if (at >= 0) inputs[id.slice(at).split('?', 1)[0]] = { bytesInOutput: 1 }
    }
  return { metafile: { inputs, outputs: { page: { inputs } } } }
}
