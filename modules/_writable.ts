import type { Paths } from 'pegboard'

const OK = new Error('it may be written')

/** Checks that a file may be written, before anything is downloaded for it. @throws ToolError why it may not */
export async function checkWritable(paths: Paths, path: string, { exclusive = false } = {}): Promise<void> {
  try {
    // biome-ignore lint/correctness/useYield: it is never asked for a second piece
    const emptyContent = (async function* (): AsyncGenerator<Uint8Array> {
      throw OK
    })()
    await paths.writeFile(path, emptyContent, { exclusive })
  } catch (error) {
    if (error !== OK) throw error
  }
}
