/** The media type in a Content-Type header, in lower case and without parameters; empty if there is none. */
export const mediaTypeOf = (contentType: string | readonly string[] | null | undefined): string =>
  String(contentType ?? '')
    .split(';', 1)[0]
    ?.trim()
    .toLowerCase() ?? ''
