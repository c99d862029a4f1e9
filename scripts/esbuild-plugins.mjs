// Plugins of esbuild that build.mjs uses.
import { readFileSync } from 'node:fs'

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

/**
 * esbuild escapes letters outside ASCII in texts, but not in regular expressions. One such letter makes V8 store the whole
 * script with two bytes a character: 2 MiB.
 */
export const asciiOnly = {
  name: 'ascii-only',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/](src|modules)[\\/].*\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll(/[^\0-\x7f]/g, toEscape),
      loader: 'ts',
    })),
}

const toEscape = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
