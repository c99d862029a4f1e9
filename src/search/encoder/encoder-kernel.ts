import { instantiateWasm, WASM_PAGE_BYTES } from '../wasm.ts'

/**
 * Matrix products of the encoder: WebAssembly SIMD where available, otherwise plain JavaScript with the same results up
 * to rounding. All addresses are bytes, multiples of 16.
 */
export interface EncoderKernel {
  readonly buffer: ArrayBuffer
  /**
   * out[t][o] = (x[t] · w[o]) · xScales[t] · wScales[o] + bias[o], with x int16, w int8 and the rest float32.
   * @param tokens a multiple of 4
   * @param inner a multiple of 8; no sum of products may leave int32
   * @param outer a multiple of 2
   */
  multiply(
    x: number,
    xScales: number,
    tokens: number,
    w: number,
    wScales: number,
    bias: number,
    out: number,
    inner: number,
    outer: number,
  ): void
  /** out[i][j] = a[i] · b[j]: float32 rows of `width` bytes that start `pitch` bytes apart. */
  compare(a: number, b: number, out: number, count: number, pitch: number, width: number): void
  /** out[i] = Σ shares[i][j] · v[j]: rows of `width` bytes, `pitch` and `outPitch` bytes apart. */
  mix(shares: number, v: number, out: number, count: number, pitch: number, width: number, outPitch: number): void
}

/** scripts/encoder.wat, assembled by scripts/simd.mjs. */
const MODULE =
  'AGFzbQEAAAABKARgBHt7e3sBe2AJf39/f39/f39/AGAGf39/f39/AGAHf39/f39/fwADBQQAAQIDBQMBAAEHJQQGbWVtb3J5AgAIbXVsdGlwbH' +
  'kAAQdjb21wYXJlAAIDbWl4AAMKywkElQEBAnsgACAB/Q0AAQIDEBESEwQFBgcUFRYXIAAgAf0NCAkKCxgZGhsMDQ4PHB0eH/2uASEEIAIgA/0N' +
  'AAECAxAREhMEBQYHFBUWFyACIAP9DQgJCgsYGRobDA0ODxwdHh/9rgEhBSAEIAX9DQABAgMEBQYHEBESExQVFhcgBCAF/Q0ICQoLDA0ODxgZGh' +
  'scHR4f/a4BC/MFAg1/DHsgCEECdCEVIAAgAiAHQQF0bGohCSADIAggB2xqIQoDQCAAIAdBAXRqIRAgECAHQQF0aiERIBEgB0EBdGohEiAB/QAE' +
  'ACEhIAMhCyAEIQwgBSENIAYhDgNAIAsgB2ohFP0MAAAAAAAAAAAAAAAAAAAAACEW/QwAAAAAAAAAAAAAAAAAAAAAIRf9DAAAAAAAAAAAAAAAAA' +
  'AAAAAhGP0MAAAAAAAAAAAAAAAAAAAAACEZ/QwAAAAAAAAAAAAAAAAAAAAAIRr9DAAAAAAAAAAAAAAAAAAAAAAhG/0MAAAAAAAAAAAAAAAAAAAA' +
  'ACEc/QwAAAAAAAAAAAAAAAAAAAAAIR1BACEPA0AgCyAPav0BAwAhHiAUIA9q/QEDACEfIA9BAXQhEyAAIBNq/QAEACEgIBYgICAe/boB/a4BIR' +
  'YgGiAgIB/9ugH9rgEhGiAQIBNq/QAEACEgIBcgICAe/boB/a4BIRcgGyAgIB/9ugH9rgEhGyARIBNq/QAEACEgIBggICAe/boB/a4BIRggHCAg' +
  'IB/9ugH9rgEhHCASIBNq/QAEACEgIBkgICAe/boB/a4BIRkgHSAgIB/9ugH9rgEhHSAPQQhqIQ8gDyAHSQ0ACyAWIBcgGCAZEAD9+gEgIf3mAS' +
  'AM/QkCAP3mASAN/QkCAP3kASEgIBogGyAcIB0QAP36ASAh/eYBIAz9CQIE/eYBIA39CQIE/eQBIR4gDiETIBMgICAe/Q0AAQIDEBESEwAAAAAA' +
  'AAAA/VsDAAAgEyAVaiETIBMgICAe/Q0EBQYHFBUWFwAAAAAAAAAA/VsDAAAgEyAVaiETIBMgICAe/Q0ICQoLGBkaGwAAAAAAAAAA/VsDAAAgEy' +
  'AVaiETIBMgICAe/Q0MDQ4PHB0eHwAAAAAAAAAA/VsDAAAgFCAHaiELIAxBCGohDCANQQhqIQ0gDkEIaiEOIAsgCkkNAAsgEiAHQQF0aiEAIAFB' +
  'EGohASAGIBVBAnRqIQYgACAJSQ0ACwugAQIEfwF7IAMhBgNAIAEhCCADIQcDQP0MAAAAAAAAAAAAAAAAAAAAACEKQQAhCQNAIAogACAJav0ABA' +
  'AgCCAJav0ABAD95gH95AEhCiAJQRBqIQkgCSAFSQ0ACyACIAr9HwAgCv0fAZIgCv0fAiAK/R8DkpI4AgAgAkEEaiECIAggBGohCCAHQQFrIgcN' +
  'AAsgACAEaiEAIAZBAWsiBg0ACwuaAQIFfwF7IAMhBwNAQQAhCwNA/QwAAAAAAAAAAAAAAAAAAAAAIQwgASALaiEJIAAhCiADIQgDQCAMIAr9CQ' +
  'IAIAn9AAQA/eYB/eQBIQwgCSAEaiEJIApBBGohCiAIQQFrIggNAAsgAiALaiAM/QsEACALQRBqIQsgCyAFSQ0ACyAAIANBAnRqIQAgAiAGaiEC' +
  'IAdBAWsiBw0ACws='

/** @param bytes size of the memory */
export function createEncoderKernel(bytes: number): EncoderKernel {
  return createSimdEncoderKernel(bytes) ?? createPlainEncoderKernel(bytes)
}

/** Undefined if WebAssembly, SIMD or the memory for it is unavailable. */
function createSimdEncoderKernel(bytes: number): EncoderKernel | undefined {
  try {
    const { memory, multiply, compare, mix } = instantiateWasm<Omit<EncoderKernel, 'buffer'>>(MODULE)
    memory.grow(Math.ceil(bytes / WASM_PAGE_BYTES))
    return { buffer: memory.buffer, multiply, compare, mix }
  } catch {
    return undefined
  }
}

export function createPlainEncoderKernel(bytes: number): EncoderKernel {
  const buffer = new ArrayBuffer(bytes)
  const floats = new Float32Array(buffer)
  return {
    buffer,
    multiply(x, xScales, tokens, w, wScales, bias, out, inner, outer) {
      const left = new Int16Array(buffer, x, tokens * inner)
      const right = new Int8Array(buffer, w, outer * inner)
      for (let token = 0; token < tokens; token++)
        for (let row = 0; row < outer; row++) {
          let sum = 0
          for (let at = 0, i = token * inner, j = row * inner; at < inner; at++) sum += left[i + at]! * right[j + at]!
          floats[out / 4 + token * outer + row] =
            sum * floats[xScales / 4 + token]! * floats[wScales / 4 + row]! + floats[bias / 4 + row]!
        }
    },
    compare(a, b, out, count, pitch, width) {
      for (let i = 0; i < count; i++)
        for (let j = 0; j < count; j++) {
          let sum = 0
          for (let k = 0; k < width / 4; k++) sum += floats[(a + i * pitch) / 4 + k]! * floats[(b + j * pitch) / 4 + k]!
          floats[out / 4 + i * count + j] = sum
        }
    },
    mix(shares, v, out, count, pitch, width, outPitch) {
      for (let i = 0; i < count; i++)
        for (let k = 0; k < width / 4; k++) {
          let sum = 0
          for (let j = 0; j < count; j++) sum += floats[shares / 4 + i * count + j]! * floats[(v + j * pitch) / 4 + k]!
          floats[(out + i * outPitch) / 4 + k] = sum
        }
    },
  }
}
