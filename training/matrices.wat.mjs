// The kernels of the trainer in WebAssembly SIMD, as text for scripts/wat.mjs: products of matrices in blocks of four by
// four, and the three loops over one row. Written out by loops because four-fold unrolling by hand would hide mistakes.
const four = [0, 1, 2, 3]
const pairs = four.flatMap((i) => four.map((j) => [i, j]))
const each = (list, write) => list.map(write).join('\n')
const get = (name) => `(local.get $${name})`
const set = (name, value) => `(local.set $${name} ${value})`
const add = (a, b) => `(i32.add ${a} ${b})`
const number = (value) => `(i32.const ${value})`
const forward = (name, bytes) => set(name, add(get(name), number(bytes)))
const locals = (type, names) => each(names, (name) => `(local $${name} ${type})`)
const sumOfLanes = (name) =>
  `(f32.add (f32.add (f32x4.extract_lane 0 ${get(name)}) (f32x4.extract_lane 1 ${get(name)}))
    (f32.add (f32x4.extract_lane 2 ${get(name)}) (f32x4.extract_lane 3 ${get(name)})))`

/** c (n × m) = a (n × d) × b (m × d) transposed; n, m and d multiples of four. */
const timesTransposed = `(func (export "timesTransposed")
  (param $a i32) (param $b i32) (param $c i32) (param $n i32) (param $m i32) (param $d i32)
  ${locals('i32', ['i', 'j', 'k', 'row', 'outRow', 'out', 'a0', 'a1', 'a2', 'a3', 'b0', 'b1', 'b2', 'b3'])}
  ${locals('v128', ['zero', 'x0', 'x1', 'x2', 'x3', 'y', ...pairs.map(([i, j]) => `s${i}${j}`)])}
  ${set('row', `(i32.shl ${get('d')} ${number(2)})`)}
  ${set('outRow', `(i32.shl ${get('m')} ${number(2)})`)}
  (loop $rows
    ${set('j', number(0))}
    (loop $columns
      ${each(pairs, ([i, j]) => set(`s${i}${j}`, get('zero')))}
      ${each(four, (i) => set(`a${i}`, add(get('a'), `(i32.mul ${add(get('i'), number(i))} ${get('row')})`)))}
      ${each(four, (j) => set(`b${j}`, add(get('b'), `(i32.mul ${add(get('j'), number(j))} ${get('row')})`)))}
      ${set('k', number(0))}
      (loop $inner
        ${each(four, (i) => set(`x${i}`, `(v128.load offset=0 ${add(get(`a${i}`), get('k'))})`))}
        ${each(
          four,
          (j) => `${set('y', `(v128.load offset=0 ${add(get(`b${j}`), get('k'))})`)}
          ${each(four, (i) => set(`s${i}${j}`, `(f32x4.add ${get(`s${i}${j}`)} (f32x4.mul ${get(`x${i}`)} ${get('y')}))`))}`,
        )}
        ${forward('k', 16)}
        (br_if $inner (i32.lt_u ${get('k')} ${get('row')})))
      ${set('out', add(get('c'), add(`(i32.mul ${get('i')} ${get('outRow')})`, `(i32.shl ${get('j')} ${number(2)})`)))}
      ${each(
        four,
        (i) => `${each(four, (j) => `(f32.store offset=${4 * j} ${get('out')} ${sumOfLanes(`s${i}${j}`)})`)}
        ${set('out', add(get('out'), get('outRow')))}`,
      )}
      ${forward('j', 4)}
      (br_if $columns (i32.lt_u ${get('j')} ${get('m')})))
    ${forward('i', 4)}
    (br_if $rows (i32.lt_u ${get('i')} ${get('n')}))))`

/** c (n × d) = g (n × m) × b (m × d); n a multiple of four, d of sixteen. */
const times = `(func (export "times")
  (param $g i32) (param $b i32) (param $c i32) (param $n i32) (param $m i32) (param $d i32)
  ${locals('i32', ['i', 'k', 'row', 'inRow', 'from', 'out', 'end', 'g0', 'g1', 'g2', 'g3'])}
  ${locals('v128', ['zero', 'x', 'y0', 'y1', 'y2', 'y3', ...pairs.map(([i, j]) => `s${i}${j}`)])}
  ${set('row', `(i32.shl ${get('d')} ${number(2)})`)}
  ${set('inRow', `(i32.shl ${get('m')} ${number(2)})`)}
  (loop $rows
    ${set('k', number(0))}
    (loop $columns
      ${each(pairs, ([i, j]) => set(`s${i}${j}`, get('zero')))}
      ${each(four, (i) => set(`g${i}`, add(get('g'), `(i32.mul ${add(get('i'), number(i))} ${get('inRow')})`)))}
      ${set('end', add(get('g0'), get('inRow')))}
      ${set('from', add(get('b'), get('k')))}
      (loop $inner
        ${each(four, (j) => set(`y${j}`, `(v128.load offset=${16 * j} ${get('from')})`))}
        ${each(
          four,
          (i) => `${set('x', `(v128.load32_splat offset=0 ${get(`g${i}`)})`)}
          ${each(four, (j) => set(`s${i}${j}`, `(f32x4.add ${get(`s${i}${j}`)} (f32x4.mul ${get('x')} ${get(`y${j}`)}))`))}
          ${forward(`g${i}`, 4)}`,
        )}
        ${set('from', add(get('from'), get('row')))}
        (br_if $inner (i32.lt_u ${get('g0')} ${get('end')})))
      ${set('out', add(get('c'), add(`(i32.mul ${get('i')} ${get('row')})`, get('k'))))}
      ${each(
        four,
        (i) => `${each(four, (j) => `(v128.store offset=${16 * j} ${get('out')} ${get(`s${i}${j}`)})`)}
        ${set('out', add(get('out'), get('row')))}`,
      )}
      ${forward('k', 64)}
      (br_if $columns (i32.lt_u ${get('k')} ${get('row')})))
    ${forward('i', 4)}
    (br_if $rows (i32.lt_u ${get('i')} ${get('n')}))))`

/** y += weight × x, over so many bytes. */
const addScaled = `(func (export "addScaled") (param $x i32) (param $weight f32) (param $y i32) (param $bytes i32)
  ${locals('i32', ['end'])} ${locals('v128', ['w'])}
  ${set('w', `(f32x4.splat ${get('weight')})`)}
  ${set('end', add(get('x'), get('bytes')))}
  (loop $l
    (v128.store offset=0 ${get('y')} (f32x4.add (v128.load offset=0 ${get('y')}) (f32x4.mul ${get('w')} (v128.load offset=0 ${get('x')}))))
    ${forward('y', 16)} ${forward('x', 16)}
    (br_if $l (i32.lt_u ${get('x')} ${get('end')}))))`

const dot = `(func (export "dot") (param $x i32) (param $y i32) (param $bytes i32) (result f32)
  ${locals('i32', ['end'])} ${locals('v128', ['sum'])}
  ${set('end', add(get('x'), get('bytes')))}
  (loop $l
    ${set('sum', `(f32x4.add ${get('sum')} (f32x4.mul (v128.load offset=0 ${get('x')}) (v128.load offset=0 ${get('y')})))`)}
    ${forward('y', 16)} ${forward('x', 16)}
    (br_if $l (i32.lt_u ${get('x')} ${get('end')})))
  ${sumOfLanes('sum')})`

/** Adagrad: history += gradient²; values -= rate × gradient / (√history + tiny); gradient = 0. */
const adagrad = `(func (export "adagrad")
  (param $values i32) (param $gradient i32) (param $history i32) (param $rate f32) (param $tiny f32) (param $bytes i32)
  ${locals('i32', ['end'])} ${locals('v128', ['r', 't', 'g', 'h', 'zero'])}
  ${set('r', `(f32x4.splat ${get('rate')})`)}
  ${set('t', `(f32x4.splat ${get('tiny')})`)}
  ${set('end', add(get('values'), get('bytes')))}
  (loop $l
    ${set('g', `(v128.load offset=0 ${get('gradient')})`)}
    ${set('h', `(f32x4.add (v128.load offset=0 ${get('history')}) (f32x4.mul ${get('g')} ${get('g')}))`)}
    (v128.store offset=0 ${get('history')} ${get('h')})
    (v128.store offset=0 ${get('values')} (f32x4.sub (v128.load offset=0 ${get('values')})
      (f32x4.div (f32x4.mul ${get('r')} ${get('g')}) (f32x4.add (f32x4.sqrt ${get('h')}) ${get('t')}))))
    (v128.store offset=0 ${get('gradient')} ${get('zero')})
    ${forward('gradient', 16)} ${forward('history', 16)} ${forward('values', 16)}
    (br_if $l (i32.lt_u ${get('values')} ${get('end')}))))`

/** @param pages of 64 KiB */
export const matricesSource = (pages) =>
  `(module (memory (export "memory") ${pages}) ${[timesTransposed, times, addScaled, dot, adagrad].join('\n')})`
