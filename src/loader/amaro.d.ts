declare module 'amaro' {
  const amaro: {
    /** Node's own type stripper. @throws a string that draws the place of the error */
    transformSync(source: string, options: { readonly mode: 'strip-only' }): { readonly code: string }
  }
  export default amaro
}
