import { type Fetch, isPegboardError, ToolError } from 'pegboard'
import { tooLarge } from '../_errors.ts'
import { SETTING } from './config.ts'

export interface PartialFile {
  /** Number of bytes that exist already. */
  readonly from: number
  /** The server's identifier (ETag or date) of the file they belong to. */
  readonly mark?: string | undefined
}

export interface DownloadProgress {
  readonly bytes?: number
  readonly total?: number
  readonly resumed?: number
  readonly mark?: string | undefined
}

export interface ResumableRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly maxBytes: number
}

const MAX_RESUMES = 5

/** The server has another file, or does not support ranges, so the existing bytes are useless. */
export class RestartNeeded extends Error {}

/**
 * The bytes of a file, or its missing part. After an interruption the rest is requested, if the server confirms that
 * the file is the same.
 * @throws RestartNeeded if that is not so at the start
 */
export async function* fetchResumable(
  { url, headers, timeoutMs, maxBytes }: ResumableRequest,
  part: PartialFile,
  fetch: Fetch,
  signal: AbortSignal,
  onProgress: (change: DownloadProgress) => void,
): AsyncGenerator<Uint8Array> {
  const endAt = performance.now() + timeoutMs
  let { from: bytes, mark } = part
  let resumed = 0
  const request = async (): Promise<Response> => {
    const range: Record<string, string> = bytes === 0 ? {} : { range: `bytes=${bytes}-`, 'if-range': mark ?? '' }
    const limits = { timeoutMs: Math.max(1, Math.ceil(endAt - performance.now())), maxBytes, maxWireBytes: maxBytes }
    return await fetch(url, { headers: { ...headers, ...range, 'accept-encoding': 'identity' }, signal, ...limits })
  }
  for (;;) {
    try {
      const response = await request()
      await checkResponse(response, bytes, resumed > 0)
      if (bytes === 0) {
        const { total, mark: newMark } = readFileFacts(response)
        if (total !== undefined && total > maxBytes) throw createTooLargeError(maxBytes)
        mark = newMark
        onProgress({ ...(total === undefined ? {} : { total }), mark })
      }
      for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
        bytes += chunk.length
        if (bytes > maxBytes) throw createTooLargeError(maxBytes)
        yield chunk
        onProgress({ bytes })
      }
      return
    } catch (error) {
      const isInterrupted = isPegboardError(error) && error.code === 'E_BACKEND_UNAVAILABLE'
      if (!isInterrupted || bytes === 0 || mark === undefined || resumed >= MAX_RESUMES) throw error
      onProgress({ resumed: ++resumed })
    }
  }
}

/**
 * @throws RestartNeeded if the first response does not continue the existing bytes
 * @throws ToolError if a response is not the file, or its missing part
 */
async function checkResponse(response: Response, from: number, isResumed: boolean): Promise<void> {
  const fits = from === 0 || continuesFile(response, from)
  if (!fits && !isResumed) {
    await response.body?.cancel()
    throw new RestartNeeded()
  }
  if (!response.ok) throw new ToolError(`The server answered with status ${response.status}; nothing was saved.`)
  if (!fits) throw new ToolError('The file changed during the download; nothing was saved.', { hint: 'Start again.' })
}

/** The size of the file, if the server gives it, and the ETag with which the rest can be requested. */
function readFileFacts({ headers }: Response): {
  readonly total: number | undefined
  readonly mark: string | undefined
} {
  const etag = headers.get('etag')
  const length = headers.get('content-length')
  return {
    total: length !== null && !headers.has('content-encoding') ? Number(length) : undefined,
    mark: etag && !etag.startsWith('W/') ? etag : undefined,
  }
}

const continuesFile = (response: Response, from: number): boolean =>
  response.status === 206 && (response.headers.get('content-range') ?? '').startsWith(`bytes ${from}-`)

const createTooLargeError = (maxBytes: number): ToolError =>
  tooLarge(`The file is larger than ${maxBytes} bytes; nothing was saved.`, `See ${SETTING}.max_download.`)
