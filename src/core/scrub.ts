const MAX_MESSAGE = 500
/** Limits the work, because the message may be hostile. */
const MAX_READ = 4 * 1024

/**
 * Makes an upstream error message safe for clients: removes credentials in URLs, private addresses, absolute paths
 * and stack traces, and cuts it at 500 characters. Reads only the first 4 KiB, in linear time.
 * @param replacementFor returns the replacement for a path that the client may see; undefined: it may not
 */
export function scrub(message: string, replacementFor: (path: string) => string | undefined = () => undefined): string {
  const replacePath = (path: string): string => {
    const end = /[.,;!?]$/.exec(path)?.[0] ?? ''
    const replacement = replacementFor(end === '' ? path : path.slice(0, -1))
    return replacement === undefined ? '<path>' : replacement + end
  }
  const clean = shortenMessage(message)
    .replaceAll(/\n[^\S\n]+at .*/g, '')
    .replaceAll(/:\/\/[^\s/]*@/g, '://')
    .replaceAll(/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '<address>')
    .replaceAll(/\b(token|key|secret|password|passwd|pwd)=[^\s&"']+/gi, '$1=<secret>')
    .replaceAll(/file:\/+[^\s"')]+/g, replacePath)
    .replaceAll(
      /(^|[\s"'`([{<=,;])(\/[^\s"'`(){}[\]<>:]+\/[^\s"'`(){}[\]<>:]+)/g,
      (_all, before: string, path: string) => before + replacePath(path),
    )
    .replaceAll(/\b[A-Za-z]:\\[^\s"']+/g, replacePath)
  return clean.length > MAX_MESSAGE ? `${clean.slice(0, MAX_MESSAGE)}…` : clean
}

const MAX_TEXTS = 1_000

/**
 * Creates `replacementFor` of `scrub`: a caller may see paths in its arguments, below folders in its arguments, and below a
 * root. A path that ends with a relative path of the arguments is replaced by that relative path.
 */
export function knownPaths(input: unknown, roots: readonly string[]): (path: string) => string | undefined {
  return (path) => {
    const plain = path.replace(/^file:\/+/, '/')
    if (/(?:^|[/\\])\.\.(?:[/\\]|$)/.test(plain)) return undefined
    const inputTexts = listTexts(input)
    if (inputTexts.some((text) => isIn(text, path) || isIn(text, plain)) || roots.some((root) => isIn(root, plain)))
      return path
    return inputTexts.find(
      (text) => /[^./\\]/.test(text) && !/^[/\\]/.test(text) && endsWithPath(plain, text.replace(/^\.\//, '')),
    )
  }
}

/** True for this path and everything below it. */
function isIn(folder: string, path: string): boolean {
  const start = folder.replace(/[/\\]+$/, '')
  return (
    /[^/\\]/.test(start) &&
    path.startsWith(start) &&
    (path.length === start.length || /[/\\]/.test(path[start.length] ?? ''))
  )
}

const endsWithPath = (path: string, text: string): boolean => path.endsWith(`/${text}`) || path.endsWith(`\\${text}`)

function listTexts(input: unknown): readonly string[] {
  const texts: string[] = []
  const open: unknown[] = [input]
  for (let count = 0; open.length > 0 && count < MAX_TEXTS; count++) {
    const value = open.pop()
    if (typeof value === 'string') texts.push(value)
    else if (typeof value === 'object' && value !== null) open.push(...Object.values(value).slice(0, MAX_TEXTS))
  }
  return texts
}

/** A word cut at the limit is dropped, because it could be part of a secret that no pattern matches. */
function shortenMessage(message: string): string {
  if (message.length <= MAX_READ) return message
  const start = message.slice(0, MAX_READ)
  const end = Math.max(start.lastIndexOf(' '), start.lastIndexOf('\n'))
  return end < 0 ? start : start.slice(0, end)
}
