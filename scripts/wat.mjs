// An assembler for the part of the WebAssembly text format that our modules use: a memory, exported functions, folded
// instructions. Encoding: WebAssembly Core Specification, chapter 5.
const vector = (number) => [0xfd, ...unsigned(number)]
const TYPES = { i32: 0x7f, f32: 0x7d, v128: 0x7b }
/** Opcode, then the kind of immediate: a local, a label, a number, an alignment (log2) of a memory access, or lanes. */
const OPCODES = {
  br_if: [[0x0d], 'label'],
  'local.get': [[0x20], 'local'],
  'local.set': [[0x21], 'local'],
  'local.tee': [[0x22], 'local'],
  'i32.load': [[0x28], 2],
  'i32.store': [[0x36], 2],
  'f32.store': [[0x38], 2],
  'i32.const': [[0x41], 'number'],
  'i32.lt_u': [[0x49]],
  'i32.add': [[0x6a]],
  'i32.sub': [[0x6b]],
  'i32.mul': [[0x6c]],
  'i32.shl': [[0x74]],
  'i32.shr_u': [[0x76]],
  'f32.add': [[0x92]],
  'v128.load': [vector(0), 4],
  'v128.load8x8_s': [vector(1), 3],
  'v128.load32_splat': [vector(9), 2],
  'v128.store': [vector(11), 4],
  'i8x16.shuffle': [vector(13), 'lanes'],
  'f32x4.splat': [vector(19)],
  'i32x4.extract_lane': [vector(27), 'lanes'],
  'f32x4.extract_lane': [vector(31), 'lanes'],
  'f32x4.gt': [vector(68)],
  'v128.any_true': [vector(83)],
  'i32x4.add': [vector(174)],
  'i32x4.dot_i16x8_s': [vector(186)],
  'i32x4.extend_low_i16x8_s': [vector(167)],
  'i32x4.extend_high_i16x8_s': [vector(168)],
  'f32x4.sqrt': [vector(227)],
  'f32x4.add': [vector(228)],
  'f32x4.sub': [vector(229)],
  'f32x4.mul': [vector(230)],
  'f32x4.div': [vector(231)],
  'f32x4.convert_i32x4_s': [vector(250)],
}

export function assemble(source) {
  const module = parse(source)
  const [, memoryExport, pages] = field(module, 'memory')
  const functions = module.filter(([head]) => head === 'func').map(compile)
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(
      1,
      functions.map(({ type }) => type),
    ),
    ...section(
      3,
      functions.map((_, index) => [index]),
    ),
    ...section(5, [[0, ...unsigned(Number(pages))]]),
    ...section(7, [[...text(memoryExport[1]), 2, 0], ...functions.map(({ name }, index) => [...name, 0, index])]),
    ...section(
      10,
      functions.map(({ code }) => [...unsigned(code.length), ...code]),
    ),
  ])
}

function compile([, exported, ...rest]) {
  const declared = (kind) => rest.filter(([head]) => head === kind)
  const params = declared('param')
  const names = [...params, ...declared('local')].map(([, name]) => name)
  const body = rest.filter(([head]) => !['param', 'result', 'local'].includes(head))
  return {
    name: text(exported[1]),
    type: [
      0x60,
      ...list(params.map(([, , type]) => [TYPES[type]])),
      ...list(declared('result').map(([, type]) => [TYPES[type]])),
    ],
    code: [
      ...list(runs(declared('local').map(([, , type]) => TYPES[type]))),
      ...body.flatMap((instruction) => encode(instruction, names, [])),
      0x0b,
    ],
  }
}

/** Folded instructions in the order they run: operands first, then the operation. */
function encode([name, ...rest], locals, labels) {
  if (name === 'loop') {
    const [label, ...body] = rest
    return [0x03, 0x40, ...body.flatMap((one) => encode(one, locals, [label, ...labels])), 0x0b]
  }
  const [opcode, kind] = OPCODES[name] ?? fail(`no such instruction: ${name}`)
  const atoms = rest.filter((part) => typeof part === 'string')
  const operands = rest.filter((part) => typeof part !== 'string').flatMap((one) => encode(one, locals, labels))
  return [...operands, ...opcode, ...immediate(kind, atoms, locals, labels)]
}

function immediate(kind, atoms, locals, labels) {
  if (kind === undefined) return []
  if (kind === 'lanes') return atoms.map(Number)
  const [atom = ''] = atoms
  if (kind === 'number') return signed(Number(atom))
  if (kind === 'local' || kind === 'label') {
    const index = (kind === 'local' ? locals : labels).indexOf(atom)
    return index < 0 ? fail(`no such ${kind}: ${atom}`) : unsigned(index)
  }
  return [kind, ...unsigned(Number(atom.replace('offset=', '')))]
}

function parse(source) {
  const tokens = source.replaceAll(/;;.*/g, '').match(/[()]|"[^"]*"|[^\s()]+/g)
  const stack = [[]]
  for (const token of tokens) {
    if (token === '(') stack.push([])
    else if (token === ')') stack.at(-2).push(stack.pop())
    else stack.at(-1).push(token)
  }
  return stack.length === 1 && stack[0].length === 1 ? stack[0][0] : fail('brackets do not match')
}

const field = (module, name) => module.find(([head]) => head === name)
const list = (items) => [...unsigned(items.length), ...items.flat()]
const text = (quoted) => list([...Buffer.from(JSON.parse(quoted))].map((byte) => [byte]))

/** [count, type] of neighbours of one type. */
function runs(types) {
  const groups = []
  for (const type of types) {
    if (groups.at(-1)?.[1] === type) groups.at(-1)[0]++
    else groups.push([1, type])
  }
  return groups
}

function section(id, items) {
  const content = list(items)
  return [id, ...unsigned(content.length), ...content]
}

function unsigned(value) {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)]
}

function signed(value) {
  return value >= -0x40 && value < 0x40 ? [value & 0x7f] : [(value & 0x7f) | 0x80, ...signed(value >> 7)]
}

function fail(reason) {
  throw new SyntaxError(reason)
}
