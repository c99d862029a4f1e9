import { type Fetch, isPegboardError, ToolError } from 'pegboard'
import { SETTING } from './config.ts'

export interface Part {
  /** Bytes that are there already. */
  readonly from: number
  /** By which the server knew the file they are of. */
  readonly mark?: string | undefined
}

export interface Told {
  readonly bytes?: number
  readonly total?: number
  readonly resumed?: number
  readonly mark?: string | undefined
}

export interface Request {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly maxBytes: number
}

const MOST_RESUMES = 5

/** The server has another file, or knows no parts: what is there is of no use. */
export class Anew extends Error {}

/**
 * The bytes of a file, or those that a part of it lacks. Where it breaks off, the rest is asked for, if the server says that
 * the file is still the same. @throws Anew where that is not so from the start
 */
export async function* fetched(
  { url, headers, timeoutMs, maxBytes }: Request,
  part: Part,
  fetch: Fetch,
  signal: AbortSignal,
  tell: (change: Told) => void,
): AsyncGenerator<Uint8Array> {
  const endAt = performance.now() + timeoutMs
  let { from: bytes, mark } = part
  let [resumed, isFirst] = [0, true]
  const ask = async (from: number): Promise<Response> => {
    const range: Record<string, string> = from === 0 ? {} : { range: `bytes=${from}-`, 'if-range': mark ?? '' }
    const limits = { timeoutMs: Math.max(1, Math.ceil(endAt - performance.now())), maxBytes, maxWireBytes: maxBytes }
    return await fetch(url, { headers: { ...headers, ...range, 'accept-encoding': 'identity' }, signal, ...limits })
  }
  for (;;) {
    try {
      const answer = await ask(bytes)
      if (isFirst && bytes > 0 && !continues(answer, bytes)) {
        await answer.body?.cancel()
        throw new Anew()
      }
      isFirst = false
      if (!answer.ok) throw new ToolError(`The address answered with the status ${answer.status}; nothing was saved.`)
      if (bytes > 0 && !continues(answer, bytes))
        throw new ToolError('The file changed while it was fetched; nothing was saved.', { hint: 'Begin again.' })
      if (bytes === 0) {
        const etag = answer.headers.get('etag')
        mark = etag && !etag.startsWith('W/') ? etag : undefined
        const length = answer.headers.get('content-length')
        const total = length !== null && !answer.headers.has('content-encoding') ? Number(length) : undefined
        if (total !== undefined && total > maxBytes) throw tooLarge(maxBytes)
        tell({ ...(total === undefined ? {} : { total }), mark })
      }
      for await (const piece of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
        bytes += piece.length
        if (bytes > maxBytes) throw tooLarge(maxBytes)
        yield piece
        tell({ bytes })
      }
      return
    } catch (error) {
      const broke = isPegboardError(error) && error.code === 'E_BACKEND_UNAVAILABLE'
      if (!broke || bytes === 0 || mark === undefined || resumed >= MOST_RESUMES) throw error
      isFirst = false
      tell({ resumed: ++resumed })
    }
  }
}

const continues = (answer: Response, from: number): boolean =>
  answer.status === 206 && (answer.headers.get('content-range') ?? '').startsWith(`bytes ${from}-`)

const tooLarge = (most: number): ToolError =>
  new ToolError(`The file is larger than ${most} bytes; nothing was saved.`, {
    code: 'E_TOO_LARGE',
    hint: `${SETTING}.max_download decides.`,
  })
