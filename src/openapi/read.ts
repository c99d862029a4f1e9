import { readFile, realpath } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { mustEnd } from '../core/regular.ts'
import { unusable } from './document.ts'
import type { Send } from './send.ts'

const WRONG = new Map([
  ['ENOENT', 'does not exist'],
  ['EISDIR', 'is a folder'],
  ['ENOTREG', 'is no regular file'],
])
const MAX_BYTES = 64 * 1024 * 1024

/**
 * Reads a document on disk and those beside and below it; nothing outside its folder, and nothing from the network.
 * @throws PegboardError E_CONFIG_OPENAPI
 */
export function fileReader(document: string): (location: string) => Promise<string> {
  return async (location) => {
    if (/^https?:/i.test(location)) throw unusable('a file may not refer to the network')
    try {
      const [root, real] = await Promise.all([realpath(dirname(document)), realpath(location)])
      if (location !== document && !real.startsWith(root.endsWith(sep) ? root : root + sep))
        throw unusable('it refers to a file outside its folder')
      mustEnd(real)
      const text = await readFile(real, 'utf8')
      if (text.length > MAX_BYTES) throw unusable('it is larger than 64 MiB')
      return text
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === undefined || code.startsWith('E_')) throw error
      const what = WRONG.get(code) ?? `cannot be read (${code})`
      throw unusable(location === document ? `the file ${what}` : `a file it refers to ${what}`, error)
    }
  }
}

/** A text of the network, and the mark by which its server knows whether it changed. */
export interface Fetched {
  readonly text: string
  readonly etag?: string
}

/** @returns undefined when it is still as the etag says. @throws PegboardError E_CONFIG_OPENAPI */
export async function fetchText(url: string, send: Send, etag?: string): Promise<Fetched | undefined> {
  const answer = await send({
    method: 'GET',
    url: new URL(url),
    headers: {
      accept: 'application/json, application/yaml, text/yaml, */*',
      ...(etag === undefined ? {} : { 'if-none-match': etag }),
    },
    timeoutMs: 30_000,
    maxBytes: MAX_BYTES,
  })
  if (answer.status === 304) return undefined
  if (answer.status !== 200) throw unusable(`its server answers ${answer.status}`)
  const mark = answer.headers['etag']
  return { text: answer.body.toString('utf8'), ...(typeof mark === 'string' ? { etag: mark } : {}) }
}

/** Reads a document of the network and those of the same origin it refers to. */
export function urlReader(first: Fetched, document: string, send: Send): (location: string) => Promise<string> {
  return async (location) => {
    if (location === document) return first.text
    if (new URL(location).origin !== new URL(document).origin)
      throw unusable('it refers to a document of another server')
    return (await fetchText(location, send))?.text ?? ''
  }
}
