/** A form as the body and headers of a request. */
export async function encodeForm(form: FormData) {
  const response = new Response(form)
  return {
    body: new Uint8Array(await response.arrayBuffer()),
    headers: { 'content-type': response.headers.get('content-type') ?? '' },
  }
}

/** A part of a form. */
export const blobOf = (bytes: Uint8Array, type: string): Blob => new Blob([Uint8Array.from(bytes)], { type })
