import { type ChainBreak, createChainVerifier } from '../../src/observe/hash-chain.ts'

/** What is wrong with the lines of an audit log, oldest first. */
export function verifyChain(lines: Iterable<string>, secret: Buffer): readonly ChainBreak[] {
  const verify = createChainVerifier(secret)
  return [...lines].flatMap((line, at) => {
    const what = verify(line)
    return what === undefined ? [] : [{ line: at + 1, what }]
  })
}
