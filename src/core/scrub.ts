const MAX_MESSAGE = 500

/**
 * A foreign message made fit for a client: credentials in URLs, private addresses, absolute paths and stacks are taken
 * out, and it is cut at 500 characters.
 */
export function scrub(message: string): string {
  const clean = message
    .replaceAll(/\n\s+at .*/g, '')
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]*@/gi, '$1')
    .replaceAll(/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '<address>')
    .replaceAll(/\b(token|key|secret|password|passwd|pwd)=[^\s&"']+/gi, '$1=<secret>')
    .replaceAll(/file:\/+[^\s"')]+/g, '<path>')
    .replaceAll(/(^|[\s"'`([{<=,;])(?:\/[^\s"'`(){}[\]<>:]+){2,}/g, '$1<path>')
    .replaceAll(/\b[A-Za-z]:\\[^\s"']+/g, '<path>')
  return clean.length > MAX_MESSAGE ? `${clean.slice(0, MAX_MESSAGE)}…` : clean
}
