/** The emoji that Telegram accepts as reactions, in its own spelling. */
const REACTIONS =
  '👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤️‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂️ 🤷 🤷‍♀️ 😡'.split(
    ' ',
  )

/** Keyboards add or omit variation selectors. */
const removeSelectors = (emoji: string): string => emoji.replaceAll('\uFE0F', '')

const spellings = new Map(REACTIONS.map((emoji) => [removeSelectors(emoji), emoji]))

/** The reaction in Telegram's spelling. */
export const findReaction = (emoji: string): string | undefined => spellings.get(removeSelectors(emoji.trim()))

export const reactionList = REACTIONS.join(' ')
