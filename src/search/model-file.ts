const HEADER_BYTES = 16

/** What the header of a kind of model file says, apart from its settings. */
export interface ModelFileKind {
  /** For errors, with its article. */
  readonly name: string
  readonly magic: number
  readonly version: number
  /** Each array starts at a multiple of this number of bytes. */
  readonly alignment: 4 | 16
}

export function alignUp(bytes: number, alignment: 4 | 16): number {
  return (bytes + alignment - 1) & -alignment
}

/** The same bytes, copied if they do not start at a multiple of four in their buffer. */
export function alignedBytes(bytes: Uint8Array): Uint8Array {
  // `slice` of a Buffer would not copy.
  const view = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
  return view.byteOffset % 4 === 0 ? view : view.slice()
}

/** Writes one file: magic, version, bytes of the settings, total bytes, the settings as JSON, then the arrays. */
export function packModelFile(kind: ModelFileKind, settings: object, arrays: readonly ArrayBufferView[]): Uint8Array {
  const json = Buffer.from(JSON.stringify(settings))
  const parts = [json, ...arrays]
  const total = parts.reduce((sum, { byteLength }) => sum + alignUp(byteLength, kind.alignment), HEADER_BYTES)
  const bytes = new Uint8Array(total)
  new Uint32Array(bytes.buffer, 0, 4).set([kind.magic, kind.version, json.length, total])
  let at = HEADER_BYTES
  for (const { buffer, byteOffset, byteLength } of parts) {
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at)
    at += alignUp(byteLength, kind.alignment)
  }
  return bytes
}

/**
 * The settings of a model file, and the bytes of its arrays, copied only if they are not aligned to four bytes.
 * @throws RangeError for another kind of file, another version, or a truncated file
 */
export function openModelFile(kind: ModelFileKind, file: Uint8Array): { settings: unknown; arrays: Uint8Array } {
  const bytes = alignedBytes(file)
  if (bytes.length < HEADER_BYTES) throw new RangeError(`not ${kind.name}`)
  const [magic, version, settingsBytes = 0, total] = new Uint32Array(bytes.buffer, bytes.byteOffset, 4)
  if (magic !== kind.magic) throw new RangeError(`not ${kind.name}`)
  if (version !== kind.version) throw new RangeError(`${kind.name} of another version`)
  if (total !== bytes.length) throw new RangeError(`${kind.name} cut short`)
  const json = Buffer.from(bytes.buffer, bytes.byteOffset + HEADER_BYTES, settingsBytes).toString()
  return {
    settings: JSON.parse(json),
    arrays: bytes.subarray(HEADER_BYTES + alignUp(settingsBytes, kind.alignment)),
  }
}
