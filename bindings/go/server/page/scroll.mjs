// Follows the end of a box that grows, unless the reader has scrolled up.

const NEAR_PX = 40;

export class Follower {
  /** `jump` is a button that is shown while the end is out of sight. */
  constructor(box, jump) {
    this.box = box;
    this.jump = jump;
    this.follows = true;
    this.top = 0;
    box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    jump.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.grown()).observe(box);
  }

  /** A box that grows does not move its top, so only a reader moves it up. */
  scrolled() {
    if (this.isAtEnd()) this.follows = true;
    else if (this.box.scrollTop < this.top) this.follows = false;
    this.top = this.box.scrollTop;
    this.jump.hidden = this.isAtEnd();
  }

  isAtEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_PX;
  }

  grown() {
    if (this.follows) this.toEnd();
    else this.jump.hidden = this.isAtEnd();
  }

  toEnd() {
    this.follows = true;
    this.box.scrollTop = this.box.scrollHeight;
    this.top = this.box.scrollTop;
    this.jump.hidden = true;
  }
}
