import type { LoadProgress } from '../search/embedder.ts'
import { ERASE, type Io } from './io.ts'

const WIDTH = 24
const EVERY_MS = 100

/** Shows the progress of a loading search model in one line; `done` clears it. Silent without a terminal. */
export function createModelProgress(
  io: Io,
  isTerminal = process.stderr.isTTY === true,
): { readonly show: (progress: LoadProgress) => void; readonly done: () => void } {
  let shownAt = Number.NEGATIVE_INFINITY
  return {
    show({ file, loaded, total }) {
      const now = performance.now()
      if (!isTerminal || now - shownAt < EVERY_MS) return
      shownAt = now
      io.stderr(`${ERASE}${formatBar(loaded, total)} ${file}`)
    },
    done() {
      if (shownAt > Number.NEGATIVE_INFINITY) io.stderr(ERASE)
      shownAt = Number.NEGATIVE_INFINITY
    },
  }
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1)

function formatBar(loaded: number, total: number | undefined): string {
  if (!total) return `${megabytes(loaded)} MB`
  const share = Math.min(1, loaded / total)
  const filled = Math.round(share * WIDTH)
  return `[${'#'.repeat(filled)}${'.'.repeat(WIDTH - filled)}] ${Math.round(share * 100)} % of ${megabytes(total)} MB`
}
