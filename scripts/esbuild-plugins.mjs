// Plugins of esbuild that build.mjs uses.

/** zod has its messages in forty languages. */
export const englishOnly = {
  name: 'zod-english-only',
  setup: ({ onLoad }) =>
    onLoad({ filter: /zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js'",
    })),
}

/** The type stripper is three times as large as all the rest, and only Node.js before 22.13 needs it. */
export const stripperApart = (path) => ({
  name: 'stripper-apart',
  setup: ({ onResolve }) => onResolve({ filter: /^amaro$/ }, () => ({ path, external: true })),
})

/** Imports of `names` become property accesses on another chunk: `of(name)` is the text of the expression. */
export const fromChunk = (names, of) => ({
  name: 'from-chunk',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path }) => (names.includes(path) ? { path, namespace: 'chunk' } : undefined))
    onResolve({ filter: /./, namespace: 'chunk' }, ({ path }) => ({ path, external: true }))
    // Several of these plugins share the namespace: each loads its own names.
    onLoad({ filter: /./, namespace: 'chunk' }, ({ path }) =>
      names.includes(path) ? { contents: `module.exports = ${of(path)}` } : undefined,
    )
  },
})

/** A script from the code cache has no import() on Node 20: what imports URLs asks the loader, which is a file of its own. */
export const importByLoader = {
  name: 'import-by-loader',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^\.\/load\.cjs$/ }, ({ path }) => ({ path, external: true }))
    onLoad({ filter: /loader[\\/]import-url\.ts$/ }, () => ({ contents: "export { importUrl } from './load.cjs'" }))
  },
}
