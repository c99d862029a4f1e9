import type { SentFile, SharedFile } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'

/** Files and injected tools of a call and its inner calls. Entries are only appended. */
export interface CallOutput {
  readonly files: readonly SharedFile[]
  readonly injected: readonly string[]
  /** Reserves the position of one more call, so that parallel calls keep their order. */
  part(): OutputPart
}

export interface OutputPart {
  readonly output: CallOutput
  readonly index: number
  /**
   * @param inspect returns the file as it may be sent. @throws PegboardError E_VALIDATION, and what `inspect`
   * throws
   */
  sendFile(file: SentFile, inspect?: (file: SharedFile) => SharedFile): void
  injectTool(name: string): void
}

export function createOutput(): CallOutput {
  const files: SharedFile[] = []
  const injected: string[] = []
  let parts = 0
  const output: CallOutput = {
    files,
    injected,
    part() {
      const index = parts++
      return {
        output,
        index,
        sendFile(file, inspect = (one) => one) {
          // A tool that relays a file of an inner call has sent it already.
          if (!files.includes(file as SharedFile)) files.push(inspect(checkFile(file, index)))
        },
        injectTool(name) {
          if (typeof name === 'string' && !injected.includes(name)) injected.push(name)
        },
      }
    },
  }
  return output
}

function checkFile(file: SentFile, callIndex: number): SharedFile {
  const { data, filename, mimetype, fileUrl } = file ?? {}
  const hasData = typeof data === 'string' || data instanceof Uint8Array
  if (typeof filename !== 'string' || typeof mimetype !== 'string' || !(hasData || typeof fileUrl === 'string'))
    throw new PegboardError('E_VALIDATION', 'A file to send needs data (bytes or text), filename and mimetype.')
  return Object.freeze({
    data: hasData ? data : '',
    filename,
    mimetype,
    ...(fileUrl === undefined ? {} : { fileUrl: String(fileUrl) }),
    callIndex,
  })
}

export const notInjectable = (name: string): string => `'${name.slice(0, 80)}' is not a tool that can be injected.`
