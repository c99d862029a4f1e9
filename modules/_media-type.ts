const hasTextAt = (bytes: Uint8Array, start: number, text: string): boolean =>
  [...text].every((char, index) => bytes[start + index] === char.charCodeAt(0))

/** Image and audio types that clients can show, by the first bytes, whatever the file name. */
export function mediaType(head: Uint8Array): string | undefined {
  if (hasTextAt(head, 0, '\x89PNG\r\n\x1a\n')) return 'image/png'
  if (hasTextAt(head, 0, '\xff\xd8\xff')) return 'image/jpeg'
  if (hasTextAt(head, 0, 'GIF87a') || hasTextAt(head, 0, 'GIF89a')) return 'image/gif'
  if (hasTextAt(head, 0, 'RIFF') && hasTextAt(head, 8, 'WEBP')) return 'image/webp'
  if (hasTextAt(head, 0, 'RIFF') && hasTextAt(head, 8, 'WAVE')) return 'audio/wav'
  if (hasTextAt(head, 0, 'ID3')) return 'audio/mpeg'
  if (hasTextAt(head, 0, 'OggS')) return 'audio/ogg'
  if (hasTextAt(head, 0, 'fLaC')) return 'audio/flac'
  return undefined
}
