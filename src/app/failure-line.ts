/** One line about a module that failed to load. Many messages start with the file already. */
export const failureLine = ({ file, error }: { readonly file: string; readonly error: string }): string =>
  error.startsWith(file) ? error : `${file}: ${error}`
