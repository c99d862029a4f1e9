const at = (bytes: Uint8Array, start: number, text: string): boolean =>
  [...text].every((char, index) => bytes[start + index] === char.charCodeAt(0))

/** Image and audio types that clients can show, by the first bytes, whatever the file name. */
export function mediaType(head: Uint8Array): string | undefined {
  if (at(head, 0, '\x89PNG\r\n\x1a\n')) return 'image/png'
  if (at(head, 0, '\xff\xd8\xff')) return 'image/jpeg'
  if (at(head, 0, 'GIF87a') || at(head, 0, 'GIF89a')) return 'image/gif'
  if (at(head, 0, 'RIFF') && at(head, 8, 'WEBP')) return 'image/webp'
  if (at(head, 0, 'RIFF') && at(head, 8, 'WAVE')) return 'audio/wav'
  if (at(head, 0, 'ID3')) return 'audio/mpeg'
  if (at(head, 0, 'OggS')) return 'audio/ogg'
  if (at(head, 0, 'fLaC')) return 'audio/flac'
  return undefined
}
