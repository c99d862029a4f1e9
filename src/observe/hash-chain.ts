import { createHmac, randomBytes } from 'node:crypto'
import { equalsInConstantTime } from '../core/equals-in-constant-time.ts'
import type { Json } from '../core/is-record.ts'
import { tryParseJson } from '../core/try-parse-json.ts'

const KEY = 'pegboard audit chain'
const MAC_CHARS = 32
const SIGNED = new RegExp(`^(\\{.*),"mac":"([0-9a-f]{${MAC_CHARS}})"\\}$`, 's')

const keyFrom = (key: Buffer): Buffer => createHmac('sha256', key).update(KEY).digest()
const macOf = (key: Buffer, text: string): string =>
  createHmac('sha256', key).update(text).digest('hex').slice(0, MAC_CHARS)

/**
 * Signs the lines of one writer as a hash chain, so that changed, moved or deleted lines are detected.
 * Several processes may write to one file; each has its own chain with a random name.
 */
export function createHashChain(secret: Buffer) {
  const key = keyFrom(secret)
  const run = randomBytes(6).toString('hex')
  let seq = 0
  let prev = ''
  return {
    /**
     * Adds `run`, `seq` and `prev` to an object, and returns its line with the signature `mac`.
     * @param write turns the fields into a line that ends with `}`. The signature is of this line, so shorten fields here
     */
    sign(fields: Json, write: (fields: object) => string): string {
      const text = write({ ...fields, run, seq: seq + 1, prev }).slice(0, -1)
      seq++
      prev = macOf(key, text)
      return `${text},"mac":"${prev}"}`
    },
  }
}

/** A line's position in its chain, and its signature. */
export interface SignedLine {
  readonly run: string
  readonly seq: number
  readonly mac: string
}

/** Undefined for a line without a position. Does not check the signature. */
export function parseSignedLine(line: string): SignedLine | undefined {
  const [, text, mac] = SIGNED.exec(line.trimEnd()) ?? []
  const fields = text === undefined ? undefined : (tryParseJson(`${text}}`) as SignedLine | undefined)
  if (!fields || mac === undefined) return undefined
  const { run, seq } = fields
  return typeof run === 'string' && Number.isInteger(seq) && /^[0-9a-f]{12}$/.test(run) ? { run, seq, mac } : undefined
}

export interface ChainBreak {
  /** Line number, counted from 1 over all lines given. */
  readonly line: number
  readonly what: 'not a signed line' | 'changed' | 'lines before it are missing' | 'lines from here on are missing'
}

/**
 * Returns a function that is called with each line, oldest first, and tells what is wrong with it. The first lines of
 * a writer may be missing, because files are rotated.
 */
export function createChainVerifier(secret: Buffer): (line: string) => ChainBreak['what'] | undefined {
  const key = keyFrom(secret)
  const last = new Map<string, { readonly seq: number; readonly mac: string }>()
  return (line) => {
    const [, text, mac] = SIGNED.exec(line) ?? []
    if (text === undefined || mac === undefined) return 'not a signed line'
    if (!equalsInConstantTime(mac, macOf(key, text))) return 'changed'
    const { run, seq, prev } = JSON.parse(`${text}}`) as { run: string; seq: number; prev: string }
    const before = last.get(run)
    last.set(run, { seq, mac })
    return before && (before.seq + 1 !== seq || before.mac !== prev) ? 'lines before it are missing' : undefined
  }
}
