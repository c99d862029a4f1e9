const MAX_MESSAGE = 500
/** What is looked at: whoever wrote the message may have made it costly to read. */
const MAX_READ = 4 * 1024

/**
 * A foreign message made fit for a client: credentials in URLs, private addresses, absolute paths and stacks are taken
 * out, and it is cut at 500 characters. Only its first 4 KiB are looked at, in time that grows with their number.
 */
export function scrub(message: string): string {
  const clean = readable(message)
    .replaceAll(/\n[^\S\n]+at .*/g, '')
    .replaceAll(/:\/\/[^\s/]*@/g, '://')
    .replaceAll(/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '<address>')
    .replaceAll(/\b(token|key|secret|password|passwd|pwd)=[^\s&"']+/gi, '$1=<secret>')
    .replaceAll(/file:\/+[^\s"')]+/g, '<path>')
    .replaceAll(/(^|[\s"'`([{<=,;])\/[^\s"'`(){}[\]<>:]+\/[^\s"'`(){}[\]<>:]+/g, '$1<path>')
    .replaceAll(/\b[A-Za-z]:\\[^\s"']+/g, '<path>')
  return clean.length > MAX_MESSAGE ? `${clean.slice(0, MAX_MESSAGE)}…` : clean
}

/** A word that is cut in two may be half a secret that no pattern knows, so it goes as a whole. */
function readable(message: string): string {
  if (message.length <= MAX_READ) return message
  const start = message.slice(0, MAX_READ)
  const end = Math.max(start.lastIndexOf(' '), start.lastIndexOf('\n'))
  return end < 0 ? start : start.slice(0, end)
}
