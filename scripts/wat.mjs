// Assembles WebAssembly text with wabt.
import wabt from 'wabt'

const { parseWat } = await wabt()

/**
 * @param {string} source a module in the text format, with SIMD
 * @returns {Uint8Array} the module
 * @throws Error with the line of the first mistake
 */
export function assemble(source) {
  const module = parseWat('module.wat', source, { simd: true })
  try {
    module.resolveNames()
    module.validate()
    return module.toBinary({}).buffer
  } finally {
    module.destroy()
  }
}
