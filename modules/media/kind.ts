/** Image types that models and chats accept, by the first bytes, because names and headers can be wrong. */
const KINDS: ReadonlyArray<readonly [mimetype: string, extension: string, is: (bytes: Buffer) => boolean]> = [
  ['image/png', 'png', (bytes) => bytes.subarray(0, 8).equals(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'))],
  ['image/jpeg', 'jpg', (bytes) => bytes.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))],
  ['image/gif', 'gif', (bytes) => /^GIF8[79]a$/.test(bytes.subarray(0, 6).toString('latin1'))],
  [
    'image/webp',
    'webp',
    (bytes) =>
      bytes.subarray(0, 4).toString('latin1') === 'RIFF' && bytes.subarray(8, 12).toString('latin1') === 'WEBP',
  ],
]

export function kindOf(bytes: Uint8Array): { readonly mimetype: string; readonly extension: string } | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const found = KINDS.find(([, , is]) => is(buffer))
  return found && { mimetype: found[0], extension: found[1] }
}
