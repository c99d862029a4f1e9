import type { SentFile, SharedFile } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'

/** What a call and those it makes send beside their results. Only ever appended to. */
export interface Output {
  readonly files: readonly SharedFile[]
  readonly injected: readonly string[]
  /** A place in it for one more call; calls that run together take theirs in order. */
  part(): Part
}

/** The output as one call sees it. */
export interface Part {
  readonly output: Output
  readonly index: number
  /** @param inspected the file as it may be sent. @throws PegboardError E_VALIDATION, and what that throws */
  sendFile(file: SentFile, inspected?: (file: SharedFile) => SharedFile): void
  injectTool(name: string): void
}

export function createOutput(): Output {
  const files: SharedFile[] = []
  const injected: string[] = []
  let parts = 0
  const output: Output = {
    files,
    injected,
    part() {
      const index = parts++
      return {
        output,
        index,
        sendFile(file, inspected = (one) => one) {
          // Whoever hands on what an inner call sent has sent it already.
          if (!files.includes(file as SharedFile)) files.push(inspected(checked(file, index)))
        },
        injectTool(name) {
          if (typeof name === 'string' && !injected.includes(name)) injected.push(name)
        },
      }
    },
  }
  return output
}

function checked(file: SentFile, callIndex: number): SharedFile {
  const { data, filename, mimetype, fileUrl } = file ?? {}
  const hasData = typeof data === 'string' || data instanceof Uint8Array
  if (typeof filename !== 'string' || typeof mimetype !== 'string' || !(hasData || typeof fileUrl === 'string'))
    throw new PegboardError('E_VALIDATION', 'A file to be sent has data (bytes or text), filename and mimetype.')
  return Object.freeze({
    data: hasData ? data : '',
    filename,
    mimetype,
    ...(fileUrl === undefined ? {} : { fileUrl: String(fileUrl) }),
    callIndex,
  })
}

/** The warning beside a result that wanted a tool nobody knows. */
export const notInjectable = (name: string): string => `'${name.slice(0, 80)}' is no tool that can be injected.`
