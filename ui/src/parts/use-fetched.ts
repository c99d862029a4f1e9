import { useEffect, useState } from 'preact/hooks'
import { attempt } from '../state.ts'

/** Reads when the panel opens and whenever `when` changes. @returns undefined until the first answer */
export function useFetched<T>(read: () => Promise<T>, when: readonly unknown[]): readonly [T | undefined, () => void] {
  const [value, setValue] = useState<T | undefined>()
  const [again, setAgain] = useState(0)
  useEffect(() => {
    let over = false
    void attempt(read).then((found) => {
      if (!over && found !== undefined) setValue(found)
    })
    return () => {
      over = true
    }
  }, [...when, again])
  return [value, () => setAgain(again + 1)]
}
