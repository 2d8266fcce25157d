// How many of something are in which state: a bar for eyes, and the same in words.
export default {
  template: `
    <div class="states">
      <div class="bar" role="img" :aria-label="said">
        <span v-for="part in parts" v-show="part.items" :class="part.tone" :style="{ flexGrow: part.items }"></span>
      </div>
      <ul>
        <li v-for="part in parts">
          <a v-if="part.href" :href="part.href"><i :class="part.tone"></i>{{ part.name }} <b>{{ shown(part.items) }}</b></a>
          <span v-else><i :class="part.tone"></i>{{ part.name }} <b>{{ shown(part.items) }}</b></span>
        </li>
      </ul>
    </div>`,
  props: { parts: Array },
  methods: { shown: (number) => number.toLocaleString("en-US") },
  computed: {
    said() {
      return this.parts.map((part) => `${part.name} ${this.shown(part.items)}`).join(", ");
    },
  },
};
