// @ts-expect-error the assembler is plain JavaScript
import { assemble } from '../scripts/wat.mjs'
// @ts-expect-error and so is the source
import { matricesSource } from './matrices.wat.mjs'

/** Numbers in WebAssembly memory, and what the trainer does with many of them at once. Addresses and lengths are in bytes. */
export interface Matrices {
  readonly buffer: ArrayBuffer
  /** @throws RangeError when the memory asked for at the start is used up */
  allocate(count: number): Float32Array
  /** c (n × m) = a (n × d) × b (m × d) transposed; n, m, d multiples of four. */
  timesTransposed(a: Float32Array, b: Float32Array, c: Float32Array, n: number, m: number, d: number): void
  /** c (n × d) = g (n × m) × b (m × d); n a multiple of four, d of sixteen. */
  times(g: Float32Array, b: Float32Array, c: Float32Array, n: number, m: number, d: number): void
  /** y += weight × x. */
  addScaled(x: number, weight: number, y: number, bytes: number): void
  dot(x: number, y: number, bytes: number): number
  adagrad(values: number, gradient: number, history: number, rate: number, tiny: number, bytes: number): void
}

interface Wasm {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object) => { readonly exports: Record<string, unknown> }
}

/** @param floats how many there will be room for */
export function createMatrices(floats: number): Matrices {
  const { Module, Instance } = (globalThis as unknown as { WebAssembly: Wasm }).WebAssembly
  const { memory, ...functions } = new Instance(new Module(assemble(matricesSource(Math.ceil(floats / 16384) + 1))))
    .exports
  const { buffer } = memory as { readonly buffer: ArrayBuffer }
  const product = (name: string): Matrices['times'] => {
    const call = functions[name] as (...numbers: number[]) => void
    return (x, y, z, n, m, d) => call(x.byteOffset, y.byteOffset, z.byteOffset, n, m, d)
  }
  let used = 0
  return {
    buffer,
    allocate(count) {
      const array = new Float32Array(buffer, used, count)
      used += count * 4
      return array
    },
    ...(functions as Pick<Matrices, 'addScaled' | 'dot' | 'adagrad'>),
    timesTransposed: product('timesTransposed'),
    times: product('times'),
  }
}
