/** The emoji that Telegram accepts as reactions, in its own spelling. */
const REACTIONS =
  '👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤️‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂️ 🤷 🤷‍♀️ 😡'.split(
    ' ',
  )

/** Keyboards add or omit variation selectors. */
const bare = (emoji: string): string => emoji.replaceAll('\uFE0F', '')

const spellings = new Map(REACTIONS.map((emoji) => [bare(emoji), emoji]))

export const reactionOf = (emoji: string): string | undefined => spellings.get(bare(emoji.trim()))

export const reactionList = REACTIONS.join(' ')
