/**
 * Node's own `import()` for URLs. The build replaces it with the one in `dist/load.cjs`, because on Node 20 a script
 * from V8's code cache has no `import()`.
 */
export const importUrl = (url: string): Promise<unknown> => import(/* @vite-ignore */ url)
