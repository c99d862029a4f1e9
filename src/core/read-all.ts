import { createGrowingBuffer } from './growing-buffer.ts'

/**
 * Reads a stream completely.
 * @throws the error of `tooLong` as soon as there are more than `maxBytes`
 */
export async function readAll(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  tooLong: () => Error = () => new Error(`the response is longer than ${maxBytes} bytes`),
): Promise<Buffer> {
  const read = createGrowingBuffer()
  for await (const chunk of body) {
    read.add(chunk)
    if (read.length > maxBytes) throw tooLong()
  }
  return read.take()
}
