;; Dot products of one query with many rows. Assembled by scripts/simd.mjs into src/search/simd-kernel.ts, which describes the memory.
;;
;; A block holds four rows, 16 dimensions of each in turn, then their four scales:
;;   a[0..15] b[0..15] c[0..15] d[0..15]  a[16..31] b[16..31] …  scale(a) scale(b) scale(c) scale(d)
;; so that one pointer walks through memory, a load of the query serves four rows, and four scores leave in one store.
(module
  (memory (export "memory") 1)
  ;; $row: address of the first block. $blocks: how many, at least 1. $width: dimensions, a multiple of 16.
  ;; Reads the query (int16) at 0; writes float32 scores, four a block, from 8192 on. Where one of the four is above $bar, appends
  ;; the distance of the block's scores from 8192 to a list (int32) that starts at 24576. Returns the length of the list.
  (func (export "score") (param $row i32) (param $blocks i32) (param $width i32) (param $bar f32) (result i32)
    (local $query i32) (local $end i32) (local $out i32) (local $found i32)
    (local $low v128) (local $high v128) (local $zero v128) (local $bars v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)

    (local.set $end (i32.shl (local.get $width) (i32.const 1)))
    (local.set $bars (f32x4.splat (local.get $bar)))
    (loop $block
      (local.set $a (local.get $zero))
      (local.set $b (local.get $zero))
      (local.set $c (local.get $zero))
      (local.set $d (local.get $zero))
      (local.set $query (i32.const 0))

      (loop $dimensions
        (local.set $low (v128.load offset=0 (local.get $query)))
        (local.set $high (v128.load offset=16 (local.get $query)))
        (local.set $a (i32x4.add (local.get $a) (i32x4.add
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=0 (local.get $row)) (local.get $low))
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=8 (local.get $row)) (local.get $high)))))
        (local.set $b (i32x4.add (local.get $b) (i32x4.add
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=16 (local.get $row)) (local.get $low))
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=24 (local.get $row)) (local.get $high)))))
        (local.set $c (i32x4.add (local.get $c) (i32x4.add
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=32 (local.get $row)) (local.get $low))
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=40 (local.get $row)) (local.get $high)))))
        (local.set $d (i32x4.add (local.get $d) (i32x4.add
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=48 (local.get $row)) (local.get $low))
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=56 (local.get $row)) (local.get $high)))))
        (local.set $row (i32.add (local.get $row) (i32.const 64)))
        (local.set $query (i32.add (local.get $query) (i32.const 32)))
        (br_if $dimensions (i32.lt_u (local.get $query) (local.get $end))))

      ;; Four lanes of a sum each: interleave and add the halves twice, and lane r is the dot product of row r.
      (local.set $low (i32x4.add
        (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b))
        (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b))))
      (local.set $high (i32x4.add
        (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d))
        (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d))))
      (v128.store offset=8192 (local.get $out)
        (local.tee $low (f32x4.mul
          (f32x4.convert_i32x4_s (i32x4.add
            (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $low) (local.get $high))
            (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $low) (local.get $high))))
          (v128.load offset=0 (local.get $row)))))

      ;; Always write, and move on only when there was something to write: no branch to mispredict.
      (i32.store offset=24576 (local.get $found) (local.get $out))
      (local.set $found (i32.add (local.get $found)
        (i32.shl (v128.any_true (f32x4.gt (local.get $low) (local.get $bars))) (i32.const 2))))
      (local.set $row (i32.add (local.get $row) (i32.const 16)))
      (local.set $out (i32.add (local.get $out) (i32.const 16)))
      (br_if $block (local.tee $blocks (i32.sub (local.get $blocks) (i32.const 1)))))
    (i32.shr_u (local.get $found) (i32.const 2)))

  ;; Dot products of the query with rows that lie anywhere, each as plain bytes. $list: address of the rows' addresses (int32).
  ;; $count: how many, at least 1. Writes int32, one a row, from 8192 on.
  (func (export "gather") (param $list i32) (param $count i32) (param $width i32)
    (local $query i32) (local $end i32) (local $row i32) (local $out i32)
    (local $sum v128) (local $zero v128)
    (local.set $end (i32.shl (local.get $width) (i32.const 1)))
    (loop $rows
      (local.set $row (i32.load offset=0 (local.get $list)))
      (local.set $sum (local.get $zero))
      (local.set $query (i32.const 0))
      (loop $dimensions
        (local.set $sum (i32x4.add (local.get $sum) (i32x4.add
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=0 (local.get $row)) (v128.load offset=0 (local.get $query)))
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=8 (local.get $row)) (v128.load offset=16 (local.get $query))))))
        (local.set $row (i32.add (local.get $row) (i32.const 16)))
        (local.set $query (i32.add (local.get $query) (i32.const 32)))
        (br_if $dimensions (i32.lt_u (local.get $query) (local.get $end))))
      (i32.store offset=8192 (local.get $out) (i32.add
        (i32.add (i32x4.extract_lane 0 (local.get $sum)) (i32x4.extract_lane 1 (local.get $sum)))
        (i32.add (i32x4.extract_lane 2 (local.get $sum)) (i32x4.extract_lane 3 (local.get $sum)))))
      (local.set $list (i32.add (local.get $list) (i32.const 4)))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (br_if $rows (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))

  ;; Adds rows that lie anywhere, each plain bytes times a factor, to the sums (float32) from 8192 on. $list: pairs of a row's address
  ;; (int32) and its factor (float32). $count: how many pairs, at least 1. Sixteen sums at a time stay in registers.
  (func (export "add") (param $list i32) (param $count i32) (param $width i32)
    (local $start i32) (local $pair i32) (local $end i32) (local $out i32) (local $row i32)
    (local $factor v128) (local $low v128) (local $high v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local.set $end (i32.add (local.get $list) (i32.shl (local.get $count) (i32.const 3))))
    (loop $dimensions
      (local.set $a (v128.load offset=8192 (local.get $out)))
      (local.set $b (v128.load offset=8208 (local.get $out)))
      (local.set $c (v128.load offset=8224 (local.get $out)))
      (local.set $d (v128.load offset=8240 (local.get $out)))
      (local.set $pair (local.get $list))
      (loop $rows
        (local.set $row (i32.add (i32.load offset=0 (local.get $pair)) (local.get $start)))
        (local.set $factor (v128.load32_splat offset=4 (local.get $pair)))
        (local.set $low (v128.load8x8_s offset=0 (local.get $row)))
        (local.set $high (v128.load8x8_s offset=8 (local.get $row)))
        (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $factor)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $low))))))
        (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $factor)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $low))))))
        (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $factor)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $high))))))
        (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $factor)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $high))))))
        (local.set $pair (i32.add (local.get $pair) (i32.const 8)))
        (br_if $rows (i32.lt_u (local.get $pair) (local.get $end))))
      (v128.store offset=8192 (local.get $out) (local.get $a))
      (v128.store offset=8208 (local.get $out) (local.get $b))
      (v128.store offset=8224 (local.get $out) (local.get $c))
      (v128.store offset=8240 (local.get $out) (local.get $d))
      (local.set $out (i32.add (local.get $out) (i32.const 64)))
      (local.set $start (i32.add (local.get $start) (i32.const 16)))
      (br_if $dimensions (i32.lt_u (local.get $start) (local.get $width))))))
